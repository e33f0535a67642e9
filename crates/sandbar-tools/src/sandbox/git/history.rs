//! Tools that show commits.

use std::num::NonZeroU64;

use futures::future::BoxFuture;
use sandbar_core::Result;

use super::invocation::Invocation;
use crate::{
    ToolContext,
    outcome::Outcome,
    params::{FilePath, GitRef, count, tool},
    registry::SandboxTool,
};

tool! {
    /// Shows the history of a repository, newest commit first.
    "git_log", Sandbox;
    pub(crate) struct GitLog {
        /// The repository, or a directory in it. Relative paths start at /workspace, which is the
        /// default.
        cwd: Option<FilePath>,
        /// The commit or branch to begin with, or a range such as v1..v2. HEAD when left out.
        r#ref: Option<GitRef>,
        /// The most commits to show.
        max_count: NonZeroU64 = count(20),
        /// Only commits that changed these files or directories, relative to `cwd`.
        paths: Vec<FilePath> = Vec::new(),
        /// One line a commit.
        oneline: bool = false,
    }
}

impl SandboxTool for GitLog {
    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            Invocation::new("log", self.cwd.as_ref())
                .option("--max-count", Some(self.max_count))
                .word_if(self.oneline, "--oneline")
                .words(&["--end-of-options"])
                .refs(&self.r#ref)
                .paths(&self.paths)
                .run(context)
                .await
        })
    }
}

tool! {
    /// Shows a commit with its changes, or a file as it was in one.
    "git_show", Sandbox;
    pub(crate) struct GitShow {
        /// The commit, tag or branch, or COMMIT:FILE for a file. HEAD when left out.
        r#ref: Option<GitRef>,
        /// The repository, or a directory in it. Relative paths start at /workspace, which is the
        /// default.
        cwd: Option<FilePath>,
        /// Only changes in these files or directories, relative to `cwd`.
        paths: Vec<FilePath> = Vec::new(),
    }
}

impl SandboxTool for GitShow {
    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            Invocation::new("show", self.cwd.as_ref())
                .words(&["--end-of-options"])
                .refs(&self.r#ref)
                .paths(&self.paths)
                .run(context)
                .await
        })
    }
}
