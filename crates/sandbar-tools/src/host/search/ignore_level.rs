//! The ignore files of one directory.

use std::{
    io::Read as _,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
};

use ignore::{Match, gitignore::Gitignore};
use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};
use sandbar_core::Result;
use sandbar_tree::{SessionTree, session_tree::open_regular};

use super::ignore_budget::{IgnoreBudget, MAX_FILE_BYTES};
use crate::{context::HostSide, patterns};

/// Rules of the ignore files of one directory. Only the files' text is read: no git configuration,
/// and no command is run.
#[derive(Debug)]
pub(super) struct IgnoreLevel {
    ripgrep: Gitignore,
    ignore: Gitignore,
    git_ignore: Gitignore,
    git_exclude: Gitignore,
    /// Whether the directory is the top of a repository: git ignore files above it do not apply.
    pub(super) is_repository: bool,
}

/// Matches of a path, collected over the levels from the deepest up.
#[derive(Debug)]
pub(super) struct Verdicts<'a> {
    /// In order of precedence.
    found: [Match<&'a ignore::gitignore::Glob>; 4],
}

impl<'a> Verdicts<'a> {
    pub(super) fn new() -> Self {
        Self {
            found: [Match::None, Match::None, Match::None, Match::None],
        }
    }

    /// Adds the next level up. `git` says whether git ignore files apply.
    pub(super) fn ask(
        &mut self,
        level: &'a IgnoreLevel,
        path: &Path,
        is_directory: bool,
        git: bool,
    ) {
        let matchers = [
            (&level.ripgrep, true),
            (&level.ignore, true),
            (&level.git_ignore, git),
            (&level.git_exclude, git),
        ];
        for (found, (matcher, counts)) in self.found.iter_mut().zip(matchers) {
            if counts && found.is_none() {
                *found = matcher.matched(path, is_directory);
            }
        }
    }

    pub(super) fn decide(self) -> Match<&'a ignore::gitignore::Glob> {
        self.found.into_iter().fold(Match::None, Match::or)
    }
}

impl IgnoreLevel {
    /// Reads the ignore files in `directory`, which is `path` in the session, within `budget`.
    pub(super) fn read(
        side: &HostSide,
        directory: BorrowedFd<'_>,
        path: &Path,
        budget: &mut IgnoreBudget,
    ) -> Result<Self> {
        let is_there = |name: &str| statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let has_git = is_there(".git");
        let mut rules = |text: &dyn Fn() -> Option<Vec<u8>>| {
            // Compiling a large file takes time: check for cancellation first.
            side.check()?;
            Ok(text().map_or_else(Gitignore::empty, |text| parse(path, &text, budget)))
        };
        Ok(Self {
            ripgrep: rules(&|| read_named(directory, ".rgignore"))?,
            ignore: rules(&|| read_named(directory, ".ignore"))?,
            git_ignore: rules(&|| read_named(directory, ".gitignore"))?,
            git_exclude: if has_git {
                rules(&|| read_exclude(&side.tree, path))?
            } else {
                Gitignore::empty()
            },
            is_repository: has_git || is_there(".jj"),
        })
    }

    /// Returns the number of ignore files of this level.
    pub(super) fn files(&self) -> usize {
        let files = [
            &self.ripgrep,
            &self.ignore,
            &self.git_ignore,
            &self.git_exclude,
        ];
        files.into_iter().filter(|file| !file.is_empty()).count()
    }
}

fn parse(directory: &Path, bytes: &[u8], budget: &mut IgnoreBudget) -> Gitignore {
    let Some(text) = budget.take(bytes) else {
        return Gitignore::empty();
    };
    let rules = patterns::ignore_file(directory, text.lines());
    budget.keep(usize::from(!rules.is_empty()));
    rules
}

/// Entry point of the fuzzer: the first line is the path, the rest an ignore file.
#[cfg(fuzzing)]
pub fn ignore_rules(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (path, rules) = text.split_once('\n').unwrap_or(("a/b", &text));
    let rules = parse(
        Path::new("/workspace"),
        rules.as_bytes(),
        &mut IgnoreBudget::default(),
    );
    for is_directory in [false, true] {
        let _ = rules.matched(
            Path::new("/workspace").join(path.trim_start_matches('/')),
            is_directory,
        );
    }
}

/// Reads a file in a directory. Symbolic links are ignored, as in git, and so are unreadable files.
fn read_named(directory: BorrowedFd<'_>, name: &str) -> Option<Vec<u8>> {
    let found = openat(
        directory,
        name,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()?;
    read_text(&found)
}

/// Reads one byte more than the limit, to detect a longer file.
fn read_text(found: &std::os::fd::OwnedFd) -> Option<Vec<u8>> {
    let (file, _) = open_regular(found).ok()??;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Reads `info/exclude` of the repository at `top`. In a worktree, `.git` is a file with the path
/// of the git directory.
fn read_exclude(tree: &SessionTree, top: &Path) -> Option<Vec<u8>> {
    let read = |path: &Path| read_text(&tree.open_path(path, OFlags::PATH).ok()?);
    let line = |path: &Path| Some(String::from_utf8_lossy(&read(path)?).into_owned());
    let git = top.join(".git");
    let git = match line(&git) {
        None => git,
        Some(pointer) => {
            let private = top.join(pointer.strip_prefix("gitdir:")?.trim());
            match line(&private.join("commondir")) {
                Some(common) => private.join(common.trim()),
                None => private,
            }
        }
    };
    read(&git.join("info/exclude"))
}

/// Returns the path of an open directory in the session; `None` when it was just deleted.
pub(super) fn real_path(tree: &SessionTree, directory: impl AsFd) -> Option<PathBuf> {
    let path = |fd: BorrowedFd<'_>| {
        use std::os::fd::AsRawFd as _;
        std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
    };
    let root = tree.directory(Path::new("/")).ok()?;
    let below = path(directory.as_fd())?
        .strip_prefix(path(root.as_fd())?)
        .ok()?
        .to_owned();
    Some(Path::new("/").join(below))
}
