//! Tools in this process, on a directory of the caller's.
//!
//! The directory is `/workspace`; around it lies a root of this machine's own programs, read-only, that nothing outlives.
//! With the native box, commands are walled in; without, they run as the caller. An ordinary user may not mount, so there
//! commands run on the machine's own files with the directory as their working directory, and `/workspace` is a name
//! that only tools on files know. What it is, is said by `capabilities().isolation`.
//!
//! A program that wants boxes calls [`run_role`] first in its `main`: boxes are started from the program itself.
//!
//! Invariant: the caller's directory is mounted in a mount namespace that belongs to one thread, below a file system in
//! memory. When the thread ends, the kernel takes the mounts away. Nothing here ever removes a tree.

mod answers;
mod config;
mod environment;
mod files;
mod own_root;
mod provider;
mod runner;
mod session;
mod tools;
mod workplace;

pub use config::{LocalConfig, LocalIsolation};
pub use environment::LocalEnvironment;
pub use provider::LocalProvider;
pub use sandbar_runtime::run_role;
