//! Native boxes: Linux namespaces and every other line of defence the kernel has.
//!
//! Read in this order: [`box_setup`] is what happens between the fork and the first command; the files beside it are one
//! line of defence each. [`spawner_process`] is the small process boxes are forked from, [`spawner`] the host's handle on
//! it. [`prepared_boxes`] has a few made before anybody asks.

mod box_setup;
mod callers_gate;
pub(crate) mod capabilities;
pub(crate) mod landlock;
pub(crate) mod launch;
mod mount_attributes;
mod mounts;
mod namespaces;
mod native_runtime;
mod owners;
mod prepared_boxes;
pub(crate) mod seccomp;
pub(crate) mod spawner;
mod spawner_process;
mod syscalls;
mod trusted;

pub use native_runtime::NativeRuntime;
pub(crate) use native_runtime::detached;
pub(crate) use spawner_process::serve as serve_spawner;
