//! Native back end: boxes made of Linux namespaces, capabilities, Landlock and seccomp.
//!
//! Start with [`box_setup`]: it runs between the fork of a box and its first command. Each file
//! beside it is one layer of isolation. [`spawner_process`] is the small process that boxes are
//! forked from, [`spawner`] is the host's handle on it. [`prepared_boxes`] keeps a few boxes ready.

mod box_handles;
mod box_network;
mod box_setup;
mod caller_listeners;
pub(crate) mod capabilities;
pub(crate) mod landlock;
pub(crate) mod launch;
mod machine;
mod mount_attributes;
mod mount_calls;
mod mounts;
mod namespaces;
mod native_runtime;
pub(crate) mod oom_score;
mod owners;
mod prepared_boxes;
mod prepared_mounts;
pub(crate) mod seccomp;
pub(crate) mod spawner;
mod spawner_process;
mod syscalls;
mod template;
mod trust_store;

pub use native_runtime::NativeRuntime;
pub(crate) use native_runtime::clone_tree;
pub(crate) use spawner_process::serve as serve_spawner;
