//! Long-running processes of a session. Each is owned by one supervisor task, which collects its
//! output and restarts it as its policy says.
//!
//! Invariant: only the supervisor changes the [`ProcessInfo`](sandbar_core::ProcessInfo) of its
//! process, and it ends after the process has. No process outlives its box: a restarted host
//! reports the processes of the earlier one as exited.

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
pub(crate) use stop_reason::{StopMode, StopReason};
pub(crate) use supervisor::{Launch, Run};
pub(crate) use table::{Process, Processes, terminate};
