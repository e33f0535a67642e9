//! Runs commands in sessions.
//!
//! A [`Runtime`] puts a [`Sandbox`] over the mounted root of a session; a sandbox starts commands and stops everything
//! it started. [`RunningCommand`] is one command seen from the host: separate streams, stdin, signals, exit status.
//! [`NoneRuntime`] is the runtime without isolation.
//!
//! Invariant: nothing a command started outlives its sandbox, and nothing of the host's environment or descriptors
//! reaches a command.

mod cgroup;
mod command;
mod environment;
mod none;
mod output;
mod process_tree;
mod runtime;
mod spawn;
mod supervise;
mod tree;

pub use command::{RunningCommand, StdinHandle};
pub use none::NoneRuntime;
pub use runtime::{Runtime, RuntimeFacts, Sandbox, SandboxSpec, SandboxStats};
pub use sandbar_core::{ExecEvent, ExecSpec, ExitStatus, StdinMode, TerminalSize};
