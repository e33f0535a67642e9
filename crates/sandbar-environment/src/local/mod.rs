//! Runs tools in this process on a directory of the caller.
//!
//! The directory is mounted as `/workspace` in a root with this machine's programs, read-only, that
//! ends with the session. With the native box, commands are isolated; without it, they run as the
//! caller. An ordinary user may not mount: commands then see the machine's own files, with the
//! directory as their working directory, and only tools on files know the path `/workspace`.
//! `capabilities().isolation` says which of these applies.
//!
//! A program that uses boxes must call [`run_role`] first in its `main`: boxes are started from the
//! program's own binary.
//!
//! Invariant: the caller's directory is mounted on a tmpfs in the mount namespace of one thread.
//! When the thread ends, the kernel removes the mounts. No code here ever removes a directory tree.

mod config;
mod environment;
mod files;
mod private_root;
mod provider;
mod replay_cache;
mod runner;
mod session;
mod session_root;
mod tools;

pub use config::{LocalConfig, LocalIsolation};
pub use environment::LocalEnvironment;
pub use provider::LocalProvider;
pub use sandbar_runtime::run_role;
