//! Other repositories.

use std::num::NonZeroU64;

use futures::future::BoxFuture;
use sandbar_core::{Error, Result};

use super::invocation::Invocation;
use crate::{
    ToolContext,
    outcome::Outcome,
    params::{FilePath, GitRef, tool},
    registry::SandboxTool,
};

/// A ref says nothing to git without the remote it is of.
fn require_remote(remote: Option<&GitRef>, reference: Option<&GitRef>) -> Result<()> {
    if reference.is_some() && remote.is_none() {
        return Err(Error::invalid("remote", "`ref` is given without `remote`")
            .with_hint("give `remote`: origin"));
    }
    Ok(())
}

tool! {
    /// Sends commits to another repository.
    "git_push", Sandbox;
    pub(crate) struct GitPush {
        /// The repository, or a directory in it. Relative paths start at /workspace, which is the
        /// default.
        cwd: Option<FilePath>,
        /// The remote to send to. The one the branch follows when left out.
        remote: Option<GitRef>,
        /// The branch or tag to send, or HERE:THERE.
        r#ref: Option<GitRef>,
        /// Let the branch follow the remote one from now on.
        set_upstream: bool = false,
        /// Replace the remote branch, if it has not changed since it was last fetched.
        force_with_lease: bool = false,
    }
}

impl SandboxTool for GitPush {
    fn validate(&self) -> Result<()> {
        require_remote(self.remote.as_ref(), self.r#ref.as_ref())
    }

    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            Invocation::new("push", self.cwd.as_ref())
                .word_if(self.set_upstream, "--set-upstream")
                .word_if(self.force_with_lease, "--force-with-lease")
                .words(&["--end-of-options"])
                .refs(self.remote.iter().chain(&self.r#ref))
                .run(context)
                .await
        })
    }
}

tool! {
    /// Copies another repository into the sandbox.
    "git_clone", Sandbox;
    pub(crate) struct GitClone {
        /// The address or path of the repository.
        url: GitRef,
        /// The directory to make, relative to `cwd`. Named after the repository when left out.
        path: Option<FilePath>,
        /// The directory to work in. Relative paths start at /workspace, which is the default.
        cwd: Option<FilePath>,
        /// The branch or tag to check out.
        branch: Option<GitRef>,
        /// Copy only this many commits of history.
        depth: Option<NonZeroU64>,
    }
}

impl SandboxTool for GitClone {
    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            let invocation = Invocation::new("clone", self.cwd.as_ref())
                .option("--branch", self.branch.as_ref().map(GitRef::as_str))
                .option("--depth", self.depth);
            // For clone, everything after `--` is an address and a path.
            let url = [self.url.as_str()];
            let path = self.path.as_ref().map(FilePath::as_str);
            invocation
                .words(&["--"])
                .words(&url)
                .words(path.as_slice())
                .run(context)
                .await
        })
    }
}

tool! {
    /// Gets commits from another repository, without touching the working tree.
    "git_fetch", Sandbox;
    pub(crate) struct GitFetch {
        /// The repository, or a directory in it. Relative paths start at /workspace, which is the
        /// default.
        cwd: Option<FilePath>,
        /// The remote to ask. The one the branch follows when left out.
        remote: Option<GitRef>,
        /// The branch or tag to get.
        r#ref: Option<GitRef>,
        /// Forget remote branches that are gone.
        prune: bool = false,
    }
}

impl SandboxTool for GitFetch {
    fn validate(&self) -> Result<()> {
        require_remote(self.remote.as_ref(), self.r#ref.as_ref())
    }

    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            Invocation::new("fetch", self.cwd.as_ref())
                .word_if(self.prune, "--prune")
                .words(&["--end-of-options"])
                .refs(self.remote.iter().chain(&self.r#ref))
                .run(context)
                .await
        })
    }
}

tool! {
    /// Gets commits from another repository and brings the current branch up to date with them, by
    /// a merge unless asked to rebase.
    "git_pull", Sandbox;
    pub(crate) struct GitPull {
        /// The repository, or a directory in it. Relative paths start at /workspace, which is the
        /// default.
        cwd: Option<FilePath>,
        /// The remote to ask. The one the branch follows when left out.
        remote: Option<GitRef>,
        /// The branch to get.
        r#ref: Option<GitRef>,
        /// Put our commits on top of theirs, instead of merging.
        rebase: bool = false,
    }
}

impl SandboxTool for GitPull {
    fn validate(&self) -> Result<()> {
        require_remote(self.remote.as_ref(), self.r#ref.as_ref())
    }

    fn run(self, context: &ToolContext) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            Invocation::new("pull", self.cwd.as_ref())
                .words(&[
                    "--no-edit",
                    if self.rebase {
                        "--rebase"
                    } else {
                        "--no-rebase"
                    },
                ])
                .words(&["--end-of-options"])
                .refs(self.remote.iter().chain(&self.r#ref))
                .run(context)
                .await
        })
    }
}
