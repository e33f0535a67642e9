//! `glob`.

use std::{
    num::NonZeroU64,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
};

use globset::GlobSet;
use ignore::overrides::Override;
use rustix::fs::FileType;
use sandbar_core::{Error, ErrorCode, Result, shown_path};
use sandbar_tree::session_tree::{Step, Visitor, WalkEntry, absolute};

use super::search::IgnoreRules;
use crate::{
    context::HostSide,
    outcome::Outcome,
    params::{FilePath, GlobPattern, count, tool},
    registry::HostTool,
    text::BoundedText,
};

tool! {
    /// Finds files by the pattern of their path: `*` and `?` stay within a name, `**` crosses
    /// directories, `{a,b}` and `[a-z]` work. What ignore files name is left out (.gitignore in a
    /// repository, .ignore), and so are hidden files unless the pattern names a hidden one. Answers
    /// one path a line, sorted.
    "glob", Host;
    pub(crate) struct Glob {
        /// The pattern, for example **/*.rs or src/*.{ts,tsx}. Absolute, or below `path`.
        pattern: GlobPattern,
        /// The directory to look in. Relative paths start at /workspace, which is the default. Name
        /// an ignored directory here to look in it.
        path: Option<FilePath>,
        /// The most paths to show.
        max_results: NonZeroU64 = count(200),
    }
}

impl HostTool for Glob {
    fn validate(&self) -> Result<()> {
        if self.pattern.as_str().starts_with('/') && self.path.is_some() {
            return Err(
                Error::invalid("path", "`path` is given, and `pattern` is absolute")
                    .with_hint("leave `path` out, or give a pattern below it"),
            );
        }
        Ok(())
    }

    fn run(self, side: &HostSide) -> Result<Outcome> {
        let (fixed, rest) = split(self.pattern.as_str());
        let shown_start = self
            .path
            .as_ref()
            .map_or_else(PathBuf::new, |path| PathBuf::from(path.as_str()))
            .join(fixed);
        let start = if shown_start.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            shown_start.clone()
        };
        let start = absolute(&start)?;
        let matcher = GlobPattern::compile(rest)
            .map_err(|problem| Error::invalid("pattern", format!("`pattern` {problem}")))?;
        let mut rules = match IgnoreRules::new(side, &start, Override::empty()) {
            Ok(rules) => rules,
            // A directory of the pattern is not there: nothing matches. One the caller named must
            // be there.
            Err(error) if error.code() == ErrorCode::FileNotFound => {
                if let Some(path) = &self.path {
                    side.tree.directory(&absolute(Path::new(path.as_str()))?)?;
                }
                return Ok(Outcome::text("[no files match]"));
            }
            Err(error) => return Err(error),
        };
        rules.hidden = rest
            .split('/')
            .any(|part| part.starts_with('.') || part.contains("{.") || part.contains(",."));
        let most = usize::try_from(self.max_results.get()).unwrap_or(usize::MAX);
        let mut finder = Finder {
            side,
            rules,
            matcher,
            shown_start,
            most,
            found: 0,
            text: BoundedText::default(),
            truncated: false,
        };
        side.tree.walk(&start, &mut finder)?;
        let mut notes = Vec::new();
        if finder.truncated {
            notes.push(format!(
                "there are more than these {}; narrow the pattern, or raise `max_results`",
                finder.found
            ));
        } else if finder.found == 0 {
            notes.push("no files match".to_owned());
        }
        notes.extend(finder.rules.note());
        let note = (!notes.is_empty()).then(|| notes.join("; ").into());
        Ok(Outcome {
            content: finder.text.with_note(note),
            truncated: finder.truncated,
            ..Outcome::default()
        })
    }
}

/// The directories a pattern begins with, and the rest, which has the wildcards and at least a
/// name.
fn split(pattern: &str) -> (&str, &str) {
    let special = pattern
        .find(['*', '?', '[', '{', '\\'])
        .unwrap_or(pattern.len());
    let end = pattern[..special].rfind('/').map_or(0, |slash| slash + 1);
    let (fixed, rest) = pattern.split_at(end);
    (fixed, rest)
}

struct Finder<'a> {
    side: &'a HostSide,
    rules: IgnoreRules,
    matcher: GlobSet,
    shown_start: PathBuf,
    most: usize,
    found: usize,
    text: BoundedText,
    truncated: bool,
}

impl Visitor for Finder<'_> {
    fn enter(&mut self, directory: BorrowedFd<'_>, path: &Path) -> Result<()> {
        self.rules.enter(self.side, directory, path)
    }

    fn leave(&mut self) {
        self.rules.leave();
    }

    fn visit(&mut self, entry: &WalkEntry<'_>) -> Result<Step> {
        self.side.check()?;
        if self.rules.ignores(entry) {
            return Ok(Step::Over);
        }
        if entry.kind == FileType::Directory {
            return Ok(Step::Into);
        }
        if self.matcher.is_match(entry.path) {
            // A newline in a name would pass for a path of its own.
            let shown = shown_path(&self.shown_start.join(entry.path));
            if self.found == self.most || !self.text.push(&format!("{shown}\n")) {
                self.truncated = true;
                return Ok(Step::Stop);
            }
            self.found += 1;
        }
        Ok(Step::Over)
    }
}
