//! The files of a session, as a map.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    outcome::{ChangeView, EntryView, Refusal},
    shell::Action,
};

/// Permission bits of what is made without saying.
const FILE_MODE: u32 = 0o644;
pub(crate) const DIRECTORY_MODE: u32 = 0o755;

/// Everything below `/workspace`, by its path there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree(BTreeMap<PathBuf, EntryView>);

impl Tree {
    pub(crate) fn new(entries: impl IntoIterator<Item = (&'static str, EntryView)>) -> Self {
        Self(
            entries
                .into_iter()
                .map(|(path, entry)| (PathBuf::from(path), entry))
                .collect(),
        )
    }

    pub(crate) fn entries(&self) -> &BTreeMap<PathBuf, EntryView> {
        &self.0
    }

    /// Writes a whole file; says whether there was one.
    pub(crate) fn write(
        &mut self,
        path: &str,
        content: &str,
        mode: Option<u32>,
        create_dirs: bool,
    ) -> Result<bool, Refusal> {
        let path = Path::new(path);
        if create_dirs {
            self.make_directories(parent(path))
                .ok_or(Refusal::no_file())?;
        }
        if !self.is_directory(parent(path)) {
            return Err(Refusal::no_file());
        }
        let existing = match self.0.get(path) {
            None => None,
            Some(EntryView::File { mode, .. }) => Some(*mode),
            Some(EntryView::Directory { .. } | EntryView::Link { .. }) => {
                return Err(Refusal::invalid("path"));
            }
        };
        let mode = mode.or(existing).unwrap_or(FILE_MODE);
        self.0.insert(
            path.to_owned(),
            EntryView::File {
                mode,
                content: content.to_owned(),
            },
        );
        Ok(existing.is_some())
    }

    pub(crate) fn read(&self, path: &str) -> Result<&str, Refusal> {
        match self.0.get(Path::new(path)) {
            None => Err(Refusal::no_file()),
            Some(EntryView::File { content, .. }) => Ok(content),
            Some(EntryView::Directory { .. } | EntryView::Link { .. }) => {
                Err(Refusal::invalid("path"))
            }
        }
    }

    pub(crate) fn stat(&self, path: &str) -> Result<EntryView, Refusal> {
        self.0
            .get(Path::new(path))
            .cloned()
            .ok_or(Refusal::no_file())
    }

    /// Lists the entries of a directory.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<(PathBuf, EntryView)>, Refusal> {
        let path = Path::new(path);
        if !self.is_directory(path) {
            return Err(Refusal::no_file());
        }
        let inside = self.0.iter().filter(|(entry, _)| parent(entry) == path);
        Ok(inside
            .map(|(path, entry)| (path.clone(), entry.clone()))
            .collect())
    }

    /// Does what a shell command does. `None`: the command fails, and has changed nothing.
    pub(crate) fn act(&mut self, action: &Action) -> Option<String> {
        match action {
            Action::Append { path, text } => self.append(Path::new(path), text)?,
            Action::Overwrite { path, text } => {
                self.write(path, text, None, false).ok()?;
            }
            Action::Remove { path } => self.0.retain(|entry, _| !entry.starts_with(path)),
            Action::MakeDirectory { path } => self.make_directories(Path::new(path))?,
            Action::Move { from, to } => self.rename(Path::new(from), Path::new(to))?,
            Action::ChangeMode { path, mode: wanted } => match self.0.get_mut(Path::new(path))? {
                EntryView::File { mode, .. } | EntryView::Directory { mode } => *mode = *wanted,
                EntryView::Link { .. } => return None,
            },
            Action::Link { target, path } => {
                if !self.is_directory(parent(Path::new(path)))
                    || self.0.contains_key(Path::new(path))
                {
                    return None;
                }
                self.0.insert(
                    PathBuf::from(path),
                    EntryView::Link {
                        target: PathBuf::from(target),
                    },
                );
            }
            Action::Show { path } => return self.read(path).ok().map(str::to_owned),
        }
        Some(String::new())
    }

    /// Returns the changes that turn this tree into the other.
    pub(crate) fn diff(&self, to: &Self) -> Vec<ChangeView> {
        let mut changes: Vec<ChangeView> = Vec::new();
        for (path, was) in &self.0 {
            match to.0.get(path) {
                None => changes.push(ChangeView::deleted(path, was)),
                Some(is) if is != was => changes.push(ChangeView::modified(path, was, is)),
                Some(_) => {}
            }
        }
        changes.extend(
            to.0.iter()
                .filter(|(path, _)| !self.0.contains_key(*path))
                .map(|(path, is)| ChangeView::added(path, is)),
        );
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || matches!(self.0.get(path), Some(EntryView::Directory { .. }))
    }

    /// Makes a directory and those above it. `None`: something else is in the way.
    fn make_directories(&mut self, path: &Path) -> Option<()> {
        let mut above: Vec<&Path> = path
            .ancestors()
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        above.reverse();
        for directory in above {
            let entry = self
                .0
                .entry(directory.to_owned())
                .or_insert(EntryView::Directory {
                    mode: DIRECTORY_MODE,
                });
            if !matches!(entry, EntryView::Directory { .. }) {
                return None;
            }
        }
        Some(())
    }

    fn append(&mut self, path: &Path, text: &str) -> Option<()> {
        if !self.is_directory(parent(path)) {
            return None;
        }
        let new = || EntryView::File {
            mode: FILE_MODE,
            content: String::new(),
        };
        let EntryView::File { content, .. } = self.0.entry(path.to_owned()).or_insert_with(new)
        else {
            return None;
        };
        content.push_str(text);
        Some(())
    }

    /// As `mv -T` does it.
    fn rename(&mut self, from: &Path, to: &Path) -> Option<()> {
        let moved = self.0.get(from)?;
        let is_directory = matches!(moved, EntryView::Directory { .. });
        if to.starts_with(from) || !self.is_directory(parent(to)) {
            return None;
        }
        let fits = match self.0.get(to) {
            None => true,
            Some(EntryView::Directory { .. }) => {
                is_directory && !self.0.keys().any(|path| path != to && path.starts_with(to))
            }
            Some(EntryView::File { .. } | EntryView::Link { .. }) => !is_directory,
        };
        if !fits {
            return None;
        }
        let subtree: Vec<PathBuf> = self
            .0
            .keys()
            .filter(|path| path.starts_with(from))
            .cloned()
            .collect();
        for path in subtree {
            let entry = self.0.remove(&path)?;
            let below = path.strip_prefix(from).ok()?;
            let place = if below.as_os_str().is_empty() {
                to.to_owned()
            } else {
                to.join(below)
            };
            self.0.insert(place, entry);
        }
        Some(())
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
