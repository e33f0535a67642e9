//! Long-running processes of a session: each is owned by a task of its own, which starts it, listens to it, and starts it
//! again when its policy says so.
//!
//! Invariant: the task is the only one who changes what is known about its process, and it ends only after the process
//! has. Nothing of this outlives the box: a host that comes back finds its processes exited, and says why.

mod clock;
mod connection;
mod logs;
mod orders;
mod proxy;
mod readiness;
mod stop_reason;
mod supervisor;
mod table;

pub(crate) use clock::Clock;
pub(crate) use connection::Dialer;
pub(crate) use logs::Logs;
pub use logs::ProcessLogs;
pub(crate) use orders::Order;
pub(crate) use proxy::ExposedPort;
pub(crate) use stop_reason::{Manner, StopReason};
pub(crate) use supervisor::{Launch, Run};
pub(crate) use table::{Process, Processes, stop_gently};
