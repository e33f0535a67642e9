//! Tools that run commands in the sandbox.

mod bash;
mod command;
mod git;
mod run_code;

pub(crate) use bash::Bash;
pub(crate) use git::{
    GitAdd, GitClone, GitCommit, GitDiff, GitFetch, GitLog, GitPull, GitPush, GitShow, GitStatus,
};
pub(crate) use run_code::RunCode;
