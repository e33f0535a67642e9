//! Runs commands in sessions.
//!
//! A [`Runtime`] puts a [`Sandbox`] over the mounted root of a session; a sandbox starts commands and stops everything
//! it started. [`RunningCommand`] is one command seen from the host: separate streams, stdin, signals, exit status.
//! [`NoneRuntime`] is the runtime without isolation.
//!
//! Invariant: nothing a command started outlives its sandbox, and nothing of the host's environment or descriptors
//! reaches a command.

mod boxed;
mod cgroup;
mod command;
mod dialed;
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
mod supervise;

pub use command::{RunningCommand, StdinHandle};
pub use dialed::{Dialed, DialedStream};
pub use gvisor::{GvisorRuntime, GvisorSettings};
pub use native::NativeRuntime;
pub use none::NoneRuntime;
pub use role::run_role;
pub use runtime::{BoxNetwork, Runtime, RuntimeFacts, Sandbox, SandboxSpec, SandboxStats, TRUST_DIRECTORY, Trust};
pub use sandbar_core::{CommandEnd, ExecEvent, ExecSpec, ExitStatus, StdinMode, TerminalSize};
