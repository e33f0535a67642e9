//! envd, the agent of E2B in a sandbox: commands and files over Connect, file contents over HTTP.
//!
//! Here it runs on the host, on behalf of the sandbox. Every request has been authenticated: its
//! extensions contain a [`SessionCaller`](crate::auth::SessionCaller).

mod abort;
mod admission;
mod env;
pub(crate) mod files;
mod filesystem;
mod location;
mod process;
mod routes;
mod state;
mod time_limit;
mod users;

pub use abort::ResetOnClose;
pub(crate) use admission::{admit, admit_by_token, admit_signed};
pub(crate) use routes::router;
pub(crate) use state::Envd;
