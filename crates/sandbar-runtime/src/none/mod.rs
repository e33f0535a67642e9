//! The runtime without isolation: for trusted use.
//!
//! As root a command sees the session's tree as `/` in a mount namespace of its own; everything else is the host's:
//! processes, network, users. Without root it runs on the host's own tree, and only its working directory lies in the
//! session.

mod none_runtime;

pub use none_runtime::NoneRuntime;
