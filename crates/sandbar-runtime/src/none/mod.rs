//! Back end without isolation, for trusted code.
//!
//! If the host is root, a command has the session's tree as `/` in a mount namespace; processes,
//! network and users are the host's. Otherwise it runs on the host's own files, with a working
//! directory in the session.

mod none_runtime;

pub use none_runtime::NoneRuntime;
