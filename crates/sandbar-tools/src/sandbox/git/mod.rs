//! The git tools. Git runs in the sandbox, whatever a repository's configuration, hooks or
//! attributes make it run.

mod changes;
mod history;
mod invocation;
mod remotes;

pub(crate) use changes::{GitAdd, GitCommit, GitDiff, GitStatus};
pub(crate) use history::{GitLog, GitShow};
pub(crate) use remotes::{GitClone, GitFetch, GitPull, GitPush};
