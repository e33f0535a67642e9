//! Runs commands in sessions.
//!
//! A [`Runtime`] opens a [`Sandbox`] over the mounted root of a session; a sandbox starts commands
//! and kills all their processes when it is stopped. [`RunningCommand`] is the host's handle on one
//! command: streams, signals, exit status. Back ends: [`NativeRuntime`], [`GvisorRuntime`] and
//! [`NoneRuntime`], which does not isolate.
//!
//! Invariant: no process of a command outlives its sandbox, and a command inherits neither
//! environment variables nor descriptors of the host.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "tests start programs and tasks as they need"
    )
)]

mod admission;
mod cgroup;
mod command;
mod default_memory;
mod environment;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gvisor;
mod init;
mod native;
mod none;
mod output;
mod process_tree;
mod protocol;
mod role;
mod runtime;
mod sandbox;
mod trust;
mod worker;

pub use command::{RunningCommand, StdinHandle};
pub use default_memory::default_memory;
pub use gvisor::{GvisorRuntime, GvisorSettings};
pub use native::NativeRuntime;
pub use none::NoneRuntime;
pub use role::{run_role, run_worker_role};
pub use runtime::{BoxNetwork, Runtime, RuntimeFacts, Sandbox, SandboxSpec, SandboxStats};
pub use sandbar_core::{CommandEnd, ExecEvent, ExecSpec, ExitStatus, StdinMode, TerminalSize};
pub use sandbox::{Dialed, DialedStream};
pub use trust::{AUTHORITY_FILE, BUNDLE_FILE, CA_BUNDLE_PATHS, TRUST_DIRECTORY, Trust};
pub use worker::{Job, JobOrder, JobPart, JobSender, RunningJob, Workers};
