//! Selection of entries: ignore files up to the root, patterns of the caller, hidden names.
//!
//! The order of precedence is ripgrep's. Its walker opens paths by name and would follow a symbolic
//! link that a session swaps in, so only its matchers are used, on text read through confined
//! descriptors.

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
};

use ignore::{Match, overrides::Override};
use rustix::fs::FileType;
use sandbar_core::Result;
use sandbar_tree::session_tree::WalkEntry;

use super::{
    ignore_budget::IgnoreBudget,
    ignore_level::{IgnoreLevel, Verdicts, real_path},
};
use crate::context::HostSide;

/// Ignore files, overrides and limits that apply to one search.
#[derive(Debug)]
pub(in crate::host) struct IgnoreRules {
    /// Start directory of the search, with links resolved.
    start: PathBuf,
    /// Directories from the root of the session to the current one.
    levels: Vec<IgnoreLevel>,
    overrides: Override,
    budget: IgnoreBudget,
    /// Hidden entries are searched as well.
    pub(in crate::host) hidden: bool,
}

impl IgnoreRules {
    /// Creates the rules for a search in the directory `start`. `overrides` take precedence over
    /// ignore files.
    pub(in crate::host) fn new(side: &HostSide, start: &Path, overrides: Override) -> Result<Self> {
        let tree = &side.tree;
        let start = real_path(tree, tree.directory(start)?).unwrap_or_else(|| start.to_owned());
        let mut above: Vec<&Path> = start.ancestors().skip(1).collect();
        above.reverse();
        let mut budget = IgnoreBudget::default();
        let mut levels = Vec::new();
        for directory in above {
            if let Ok(opened) = tree.directory(directory) {
                levels.push(IgnoreLevel::read(
                    side,
                    opened.as_fd(),
                    directory,
                    &mut budget,
                )?);
            }
        }
        Ok(Self {
            start,
            levels,
            overrides,
            budget,
            hidden: false,
        })
    }

    /// Enters a directory; `path` is relative to the start of the search.
    pub(in crate::host) fn enter(
        &mut self,
        side: &HostSide,
        directory: BorrowedFd<'_>,
        path: &Path,
    ) -> Result<()> {
        self.levels.push(IgnoreLevel::read(
            side,
            directory,
            &self.start.join(path),
            &mut self.budget,
        )?);
        Ok(())
    }

    pub(in crate::host) fn leave(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.budget.give_back(level.files());
        }
    }

    /// Returns a remark if ignore files were left out.
    pub(in crate::host) fn note(&self) -> Option<String> {
        self.budget.note()
    }

    /// Returns whether an entry is left out of the search.
    pub(in crate::host) fn ignores(&self, entry: &WalkEntry<'_>) -> bool {
        let is_directory = entry.kind == FileType::Directory;
        let by_caller = self.overrides.matched(entry.path, is_directory);
        if !by_caller.is_none() {
            return by_caller.is_ignore();
        }
        match self.by_files(&self.start.join(entry.path), is_directory) {
            Match::Ignore(_) => true,
            Match::Whitelist(_) => false,
            Match::None => !self.hidden && entry.name.to_bytes().starts_with(b"."),
        }
    }

    fn by_files(&self, path: &Path, is_directory: bool) -> Match<&ignore::gitignore::Glob> {
        let mut git = self.levels.iter().any(|level| level.is_repository);
        let mut verdicts = Verdicts::new();
        for level in self.levels.iter().rev() {
            verdicts.ask(level, path, is_directory, git);
            git &= !level.is_repository;
        }
        verdicts.decide()
    }
}
