//! The host's API on one port.
//!
//! [`serve`] puts a [`Host`](sandbar_host::Host) behind `sandbar.v1.SandboxService` as Connect
//! (JSON and binary), gRPC and gRPC-Web over HTTP/1.1 and HTTP/2, with reflection,
//! `grpc.health.v1`, `/healthz` and `/readyz`. `rpc` has one file for each group of calls; it
//! leaves the meaning of messages to `sandbar-proto` and the work to `sandbar-host`. Requests for
//! the host name of a session are forwarded to a port in its box (`ingress`).
//!
//! Invariant: every route but health and the API description needs a token with sufficient scope
//! (`access`), a malformed request is answered and never panics, and a command started with `Exec`
//! is killed when its caller disconnects.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "tests start programs and tasks as they need"
    )
)]

mod access;
#[cfg(fuzzing)]
pub mod fuzzing;
mod http;
mod ingress;
mod rpc;
mod tls;

pub use http::{ConnectionTimeouts, RunningServer, ServerConfig, serve};
pub use sandbar_core::AccessToken;
pub use tls::{LocalIdentity, TlsConfig, TlsIdentity};
