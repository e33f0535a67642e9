//! gVisor back end: boxes with a kernel of their own, which runs in user space.
//!
//! The program `runsc` starts a *container*: a sandbox process, which is the kernel, and a gofer,
//! which opens files for it. Its first process is our own binary. A container starts over an almost
//! empty root and gets the tree of a session later, so that a few can wait in a [`warm_pool`].
//! [`guest`] is the code inside the container, from its start to the first command.
//!
//! Each container has one directory ([`bundle`]) and one set of cgroups. It is destroyed by killing
//! the cgroups and removing the directory, which takes a hundredth of the time of `runsc delete`.

mod box_network;
mod bundle;
mod checkpoint;
mod container;
mod dns_relay;
mod guest;
mod gvisor_runtime;
mod gvisor_sandbox;
mod host_process;
mod leftovers;
mod probe;
mod runsc;
mod tree;
mod warm_pool;

pub(crate) use guest::run as run_guest;
pub use gvisor_runtime::{GvisorRuntime, GvisorSettings};
