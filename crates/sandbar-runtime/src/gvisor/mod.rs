//! gVisor: boxes with a kernel of their own, which runs in user space.
//!
//! The program `runsc` starts a *container*: a sandbox process that is the kernel, and a gofer that opens files for it. Our
//! own binary is its first process. A container begins over an almost empty tree and gets the tree of a session later, so
//! that a few can wait in a [`warm_pool`]: [`guest`] is what happens inside from then until the first command.
//!
//! Everything about one container lies in one directory ([`bundle`]) and one set of cgroups; ending it means killing what
//! is in the cgroups and removing the directory. `runsc delete` does the same in a hundred times the time.

mod bundle;
mod checkpoint;
mod container;
mod guest;
mod gvisor_runtime;
mod gvisor_sandbox;
mod host_process;
mod leftovers;
mod name_relay;
mod probe;
mod runsc;
mod tree;
mod warm_pool;

pub(crate) use guest::{INIT_USER, run as run_guest};
pub use gvisor_runtime::{GvisorRuntime, GvisorSettings};
