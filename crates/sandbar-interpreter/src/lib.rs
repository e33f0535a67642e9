//! The code interpreter of a sandbox: the server that `run_code` of the E2B SDKs talks to.
//!
//! [`Interpreters`] starts one server per sandbox on port [`PORT`], forwards HTTP requests to it,
//! and restarts it when it exits by itself. The server is in `guest/`: Python that needs only its
//! standard library, with one kernel process per context (Python, JavaScript, TypeScript, bash, R,
//! Java). Its sources go through standard input, so the sandbox contains no file of it.
//!
//! Invariant: at most one start of the server per sandbox is in progress, and a port on which a
//! server of the template already listens is never taken over.

mod bundle;
mod forward;
mod interpreters;
mod restart;
mod start;

pub use interpreters::Interpreters;
pub use start::{Environment, PORT, is_interpreter};
