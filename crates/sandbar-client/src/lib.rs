//! A typed client of a Sandbar host.
//!
//! [`Client`] mirrors the host's operations in the vocabulary of `sandbar-core`, and its errors are the host's own:
//! code, field and hint as they were raised there. [`RemoteCommand`] is a command that runs on the other side.
//!
//! Invariant: only calls that change nothing, or are done once however often they are made, are repeated, and only when
//! the server could not be reached.

mod attach;
mod audit;
mod bases;
mod client;
mod connector;
mod conversation;
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
pub use client::{Client, ConnectOptions, WireProtocol};
pub use conversation::{RemoteControl, RemoteStdin};
pub use exec::RemoteCommand;
pub use processes::RemoteLogs;
pub use tls::TlsOptions;
pub use tools::RemoteTool;
pub use watch::{RemoteEvents, RemoteWatch};
