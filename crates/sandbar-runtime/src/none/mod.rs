//! The runtime without isolation: for trusted use.
//!
//! As root a command sees the session's tree as `/` in a mount namespace of its own; everything else is the host's:
//! processes, network, users, limits. Without root it runs on the host's own tree, and only its working directory lies
//! in the session.

mod mount_namespace;
mod none_runtime;
mod none_sandbox;

pub use none_runtime::NoneRuntime;
