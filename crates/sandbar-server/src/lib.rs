//! The host's API on one port.
//!
//! [`serve`] puts a [`Host`](sandbar_host::Host) behind `sandbar.v1.SandboxService` as Connect (JSON and binary), gRPC
//! and gRPC-Web over HTTP/1.1 and HTTP/2, with reflection, `grpc.health.v1`, `/healthz` and `/readyz`. One file a group
//! of calls; what a message means is decided in `sandbar-proto`, what is done about it in `sandbar-host`. Requests for
//! the host names of sessions are passed on to the ports of those (`ingress`).
//!
//! Invariant: nothing but health and the description of the API is answered without a token whose scope is enough
//! (`access`), a bad request is answered and never panics, and a caller that goes away takes the command it started with
//! it.

mod access;
mod attach;
mod audit;
mod bases;
mod batches;
mod connection;
mod conversation;
mod entrance;
mod events;
mod exec;
mod failure;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod health_protocol;
mod host_state;
mod ingress;
mod listener;
mod mcp;
mod network;
mod openapi;
mod oversize;
mod patience;
mod processes;
mod request_span;
mod router;
mod service;
mod sessions;
mod signal;
mod slow_reader;
mod snapshots;
mod tls;
mod tokens;
mod tools;
mod torn_body;

pub use listener::{RunningServer, ServerConfig, serve};
pub use patience::Patience;
pub use sandbar_core::AccessToken;
pub use tls::{LocalIdentity, TlsConfig, TlsIdentity};
