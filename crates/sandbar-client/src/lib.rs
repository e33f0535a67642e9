//! Typed client of a Sandbar host.
//!
//! [`Client`] mirrors the host's operations in the vocabulary of `sandbar-core`, and its errors are
//! the host's own: code, field and hint as they were raised there. [`RemoteCommand`] is a command
//! that runs on the host.
//!
//! Invariant: only idempotent calls are retried, and only when the server could not be reached.

mod attach;
mod audit;
mod bases;
mod bidi_call;
mod client;
mod connector;

mod exec;
mod files;
mod host;
mod network;
mod processes;
mod retry;
mod sessions;
mod snapshots;
mod tls;
mod tokens;
mod tools;
mod transport;
mod upload;
mod watch;

pub use attach::RemoteAttachment;
pub use bases::{ImportProgress, RegistryCredentials};
pub use bidi_call::{RemoteControl, RemoteStdin};
pub use client::{Client, ConnectOptions, WireProtocol};
pub use exec::RemoteCommand;
pub use processes::RemoteLogs;
pub use tls::TlsOptions;
pub use tools::RemoteTool;
pub use watch::{RemoteEvents, RemoteWatch};
