//! Probes of what this machine can do, for `sandbar doctor`.
//!
//! Each probe performs the operation in question in isolation — in a scratch directory, a private
//! mount namespace or a child process — and undoes it. No probe needs a running host.

mod examine;
mod finding;
mod kernel;
mod runtime;
mod scratch;
mod storage;
mod syscall;

pub(crate) use examine::{Examination, examine};
pub(crate) use finding::{Finding, Status};
