//! Worker processes: jobs that parse, match or walk what a session controls.
//!
//! A job runs in a process of its own, confined before it reads anything: it can read the
//! directories it was given and answer on its socket, and nothing else. A crash, a stack overflow
//! or an exceeded limit ends one job, and never the host.
//!
//! [`server`] is the small single-threaded process that jobs are forked from, [`Workers`] the
//! host's handle on it. What a job does is the caller's: see [`run_worker_role`](crate::run_worker_role).

mod confinement;
mod job;
mod order;
mod running;
mod server;
mod syscalls;
mod workers;

pub(crate) use job::RunJob;
pub use job::{Job, JobSender};
pub use order::JobOrder;
pub use running::{JobPart, RunningJob};
pub(crate) use server::serve as serve_workers;
pub use workers::Workers;
