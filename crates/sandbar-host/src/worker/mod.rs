//! Jobs that walk, match or parse the tree of a session, in confined worker processes.
//!
//! [`jobs`] is the code in the worker process, [`walks`] the host's side, [`messages`] what they
//! say to each other. The host receives bounded answers, and interprets nothing but these messages.

mod jobs;
mod messages;
mod walks;

pub(crate) use messages::{ListContents, Request, path_bytes};
pub(crate) use walks::{ToolWalks, WalkJob, WalkLimits, Walks, block_on};

/// Runs as worker server if this process was started as one, and does not return then. Must be
/// called in `main` after [`sandbar_runtime::run_role`].
pub fn run_worker_role() {
    sandbar_runtime::run_worker_role(jobs::run);
}
