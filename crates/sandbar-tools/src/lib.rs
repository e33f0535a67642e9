//! The tools agents call.
//!
//! [`PreparedCall`] is a call whose parameters are known to be good; [`PreparedCall::run`] does it.
//! Tier 1 tools work on the files of a session, through descriptors that cannot lead out of the
//! session's tree: in this process on a single file, in a confined one ([`WalkRunner`]) where they
//! walk trees and match patterns. Tier 2 tools run commands in the sandbox, through the
//! [`CommandRunner`] of the host.
//!
//! Invariant: nothing a session controls is ever executed by this process, and no path of a
//! session's is opened but through its [`SessionTree`](sandbar_tree::SessionTree).

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "tests start programs and tasks as they need"
    )
)]

mod call;
pub mod calls;
mod context;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host;
mod outcome;
mod params;
mod patterns;
mod registry;
mod sandbox;
mod text;

pub use call::PreparedCall;
pub use context::{CommandRunner, ToolContext, WalkRunner};
pub use registry::list_tools;
pub use text::CONTENT_LIMIT;
