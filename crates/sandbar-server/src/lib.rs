//! The host's API on one port.
//!
//! [`serve`] puts a [`Host`](sandbar_host::Host) behind `sandbar.v1.SandboxService` as Connect (JSON and binary), gRPC
//! and gRPC-Web over HTTP/1.1 and HTTP/2, with reflection, `/healthz` and `/readyz`. One file a group of calls; what a
//! message means is decided in `sandbar-proto`, what is done about it in `sandbar-host`. Requests for the host names of
//! sessions are passed on to the ports of those (`ingress`).
//!
//! Invariant: nothing of the API but the two health paths is answered without the token, a bad request is answered and
//! never panics, and a caller that goes away takes the command it started with it.

mod access;
mod audit;
mod bases;
mod batches;
mod entrance;
mod exec;
mod failure;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod host_state;
mod ingress;
mod listener;
mod network;
mod oversize;
mod processes;
mod router;
mod service;
mod sessions;
mod signal;
mod snapshots;
mod tools;
mod torn_body;

pub use access::AccessToken;
pub use listener::{RunningServer, ServerConfig, serve};
