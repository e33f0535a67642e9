//! The step that copies: an archive the SDK sent becomes files of the sandbox.
//!
//! E2B unpacks it and moves what the first name is: a file to its exact place, what is in a directory into the target. Here the
//! archive is written anew on its way in, with the names, owners and modes its files are to have; [`merge`](super::merge) says
//! where directories go.

use std::{
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use jiff::Timestamp;
use sandbar_core::{Error, Result, SessionId};
use sandbar_host::Host;
use tar::{Builder, Entry, EntryType, Header};
use tokio::{sync::mpsc, task::spawn_blocking};

use super::{
    archive::{directories, entries, mode_of, name_of, open, plain, unreadable},
    merge::{Directories, Layout},
};

/// Pieces on their way to the sandbox.
const WAITING: usize = 16;
const PIECE: usize = 128 * 1024;

/// What becomes of the files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) mode: Option<u32>,
}

impl Owned {
    fn header(self, kind: EntryType, own_mode: u32) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(if kind == EntryType::Continuous { EntryType::Regular } else { kind });
        header.set_uid(self.user.into());
        header.set_gid(self.group.into());
        header.set_mode(self.mode.filter(|_| kind != EntryType::Symlink).unwrap_or(own_mode));
        header.set_size(0);
        header
    }
}

/// Where a copy goes, once it is known what is copied.
#[derive(Debug, PartialEq, Eq)]
struct Route {
    /// What is cut off the names in the archive.
    below: PathBuf,
    /// The directory it goes to.
    directory: PathBuf,
    /// The name it gets there, when it is one file.
    name: Option<PathBuf>,
}

/// The names files get in the sandbox.
enum Names {
    /// It is one file.
    File(PathBuf),
    /// It is what is in a directory.
    Tree(Layout),
}

impl Names {
    /// By what a file is called below what is copied.
    fn of(&self, rest: &Path) -> Option<PathBuf> {
        match self {
            Self::File(name) => rest.as_os_str().is_empty().then(|| name.clone()),
            Self::Tree(layout) => layout.name(rest),
        }
    }
}

/// Copies the archive to `target`, which is absolute. `is_directory` says that there is a directory of this name already.
pub(super) async fn copy(
    host: &Host,
    session: &SessionId,
    archive: &Path,
    source: &str,
    target: &str,
    is_directory: bool,
    owned: Owned,
) -> Result<()> {
    let (archive, source, target) = (archive.to_owned(), source.to_owned(), target.to_owned());
    let path = archive.clone();
    let (route, directories) = blocking(move || {
        let route = route(&path, &source, &target, is_directory)?;
        let directories = if route.name.is_none() { directories(&path, &route.below)? } else { Directories::new() };
        Ok((route, directories))
    })
    .await?;
    let (root, names) = if let Some(name) = route.name {
        (route.directory, Names::File(name))
    } else {
        let layout = Layout::plan(host, session, &route.directory, directories).await?;
        (PathBuf::from("/"), Names::Tree(layout))
    };
    let mut writer = host.import_tree(session, &root).await?;
    let (sender, mut pieces) = mpsc::channel(WAITING);
    let rewriting = blocking(move || rewrite(&archive, &route.below, &names, owned, sender));
    let sending = async {
        while let Some(piece) = pieces.recv().await {
            writer.write(piece).await?;
        }
        writer.finish().await
    };
    let (rewritten, sent) = tokio::join!(rewriting, sending);
    // Who takes the pieces knows better why there is no more use for them.
    sent.map(drop).and(rewritten)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(Error::internal("copying broke off").with_source(error)))
}

/// What is named before the first wildcard of a pattern; `None` is everything.
fn named(source: &str) -> Option<PathBuf> {
    let parts = source.split('/').filter(|part| !part.is_empty() && *part != ".");
    let named: PathBuf = parts.take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).collect();
    (!named.as_os_str().is_empty()).then_some(named)
}

fn route(archive: &Path, source: &str, target: &str, is_directory: bool) -> Result<Route> {
    let target_path = PathBuf::from(target);
    let Some(named) = named(source) else {
        return Ok(Route { below: PathBuf::new(), directory: target_path, name: None });
    };
    let folder = named.parent().unwrap_or(Path::new(""));
    let mut first: Option<(PathBuf, bool)> = None;
    let mut reader = open(archive)?;
    for entry in entries(&mut reader)? {
        let entry = entry.map_err(unreadable)?;
        let path = name_of(&entry)?;
        let Ok(rest) = path.strip_prefix(folder) else { continue };
        let Some(Component::Normal(name)) = rest.components().next() else { continue };
        let is_inside = rest.components().count() > 1;
        let is_below = is_inside || entry.header().entry_type() == EntryType::Directory;
        let name = PathBuf::from(name);
        match &mut first {
            None => first = Some((name, is_below)),
            // The first by name counts, as `ls` lists them.
            Some((known, directory)) if name == *known => *directory |= is_below,
            Some((known, directory)) if name < *known => (*known, *directory) = (name, is_below),
            Some(_) => {}
        }
    }
    let (name, first_is_directory) =
        first.ok_or_else(|| Error::invalid("args", format!("there are no files of `{source}` in what was sent")))?;
    if first_is_directory {
        return Ok(Route { below: folder.join(name), directory: target_path, name: None });
    }
    let below = folder.join(&name);
    if is_directory || target.ends_with('/') {
        return Ok(Route { below, directory: target_path, name: Some(name) });
    }
    let file = target_path.file_name().map(PathBuf::from);
    let file = file.ok_or_else(|| Error::invalid("args", format!("`{target}` is no place for a file")))?;
    let directory = target_path.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Route { below, directory, name: Some(file) })
}

/// Writes the archive anew.
fn rewrite(archive: &Path, below: &Path, names: &Names, owned: Owned, sender: mpsc::Sender<Bytes>) -> Result<()> {
    let mut reader = open(archive)?;
    let mut builder = Builder::new(Pieces { sender, piece: Vec::with_capacity(PIECE) });
    if let Names::Tree(layout) = names {
        for (name, mode) in layout.new_directories() {
            let mut header = owned.header(EntryType::Directory, mode.unwrap_or(0o755));
            header.set_mtime(u64::try_from(Timestamp::now().as_second()).unwrap_or_default());
            builder.append_data(&mut header, name, io::empty()).map_err(unsent)?;
        }
    }
    for entry in entries(&mut reader)? {
        let mut entry = entry.map_err(unreadable)?;
        let path = name_of(&entry)?;
        let Ok(rest) = path.strip_prefix(below) else { continue };
        if let Some(name) = names.of(rest) {
            add(&mut builder, &mut entry, &name, (below, names), owned)?;
        }
    }
    builder.into_inner().and_then(|mut pieces| pieces.flush()).map_err(unsent)
}

fn add(
    builder: &mut Builder<Pieces>,
    entry: &mut Entry<'_, impl Read>,
    name: &Path,
    (below, names): (&Path, &Names),
    owned: Owned,
) -> Result<()> {
    let kind = entry.header().entry_type();
    let mut header = owned.header(kind, mode_of(entry)?);
    header.set_mtime(entry.header().mtime().unwrap_or_default());
    let link = || -> Result<PathBuf> {
        let link = entry.link_name().map_err(unreadable)?;
        link.map(std::borrow::Cow::into_owned)
            .ok_or_else(|| Error::invalid("args", "a link in what was sent leads nowhere"))
    };
    match kind {
        EntryType::Regular | EntryType::Continuous => {
            header.set_size(entry.size());
            builder.append_data(&mut header, name, entry).map_err(unsent)
        }
        EntryType::Symlink => builder.append_link(&mut header, name, link()?).map_err(unsent),
        EntryType::Link => {
            // It names another file of the archive, which has moved with it.
            let target = plain(&link()?)?;
            let Some(target) = target.strip_prefix(below).ok().and_then(|rest| names.of(rest)) else {
                return Err(Error::invalid(
                    "args",
                    format!("`{}` is a link to a file that is not copied", name.display()),
                ));
            };
            builder.append_link(&mut header, name, target).map_err(unsent)
        }
        // Directories are made already. Pipes, devices and sockets are no files somebody means to copy.
        _ => Ok(()),
    }
}

fn unsent(error: io::Error) -> Error {
    Error::io("write files to the sandbox", error)
}

/// Collects what is written and passes it on.
struct Pieces {
    sender: mpsc::Sender<Bytes>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        if piece.is_empty() {
            return Ok(());
        }
        self.sender.blocking_send(piece.into()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(names: &[&str]) -> tempfile::NamedTempFile {
        let mut builder = Builder::new(tempfile::NamedTempFile::new().unwrap());
        for name in names {
            let mut header = Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(0);
            if name.ends_with('/') {
                header.set_entry_type(EntryType::Directory);
            }
            builder.append_data(&mut header, name, io::empty()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn routed(names: &[&str], source: &str, target: &str, is_directory: bool) -> (String, String, Option<String>) {
        let archive = archive(names);
        let route = route(archive.path(), source, target, is_directory).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        (text(route.below), text(route.directory), route.name.map(text))
    }

    #[test]
    fn a_file_goes_to_its_exact_place_and_into_a_directory_that_is_there() {
        let to = |directory: &str, name: &str| ("a.py".to_owned(), directory.to_owned(), Some(name.to_owned()));
        assert_eq!(routed(&["a.py"], "a.py", "/app/main.py", false), to("/app", "main.py"));
        assert_eq!(routed(&["a.py"], "a.py", "/app", true), to("/app", "a.py"));
        assert_eq!(routed(&["a.py"], "./a.py", "/app/", false), to("/app/", "a.py"));
        let deep = routed(&["x/y/a.py"], "x/y/a.py", "/a.py", false);
        assert_eq!(deep, ("x/y/a.py".into(), "/".into(), Some("a.py".into())));
    }

    #[test]
    fn what_is_in_a_directory_goes_into_the_target() {
        let expected = ("src".to_owned(), "/app".to_owned(), None);
        assert_eq!(routed(&["src/", "src/a", "src/b/c"], "src", "/app", false), expected);
        assert_eq!(routed(&["src/a"], "src/*.py", "/app", false), expected);
        assert_eq!(routed(&["src/a"], "src/", "/app", true), expected);
        assert_eq!(routed(&["a", "b"], "*", "/app", false), (String::new(), "/app".into(), None));
        assert_eq!(routed(&["a", "b"], ".", "/app", false).2, None);
    }

    #[test]
    fn names_that_lead_out_and_archives_without_files_are_refused() {
        assert!(plain(Path::new("../x")).is_err() && plain(Path::new("/x")).is_err());
        let archive = archive(&["other"]);
        assert!(route(archive.path(), "folder/file", "/app", false).is_err());
    }
}
