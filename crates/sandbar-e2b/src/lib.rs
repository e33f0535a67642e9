//! The API of the unmodified E2B SDKs, over a Sandbar host.
//!
//! Three parts share one port. `control` is the REST API of sandboxes, their lifecycle, snapshots
//! and `templates`. `envd` implements from outside what E2B runs inside a sandbox: commands and
//! files over Connect, file contents over HTTP. `interpreter` is a server in the sandbox. A request
//! is dispatched by its path, by the headers `E2b-Sandbox-Id` and `E2b-Sandbox-Port`, or by its
//! host name ([`Route`]). Other ports of a sandbox are reached through the server's own ingress,
//! with the settings of the E2B client ([`PortRules`]).
//!
//! A sandbox is a session, its metadata are the session's labels, a template is a base. Facts that
//! only E2B has are kept in one note of the session (`sandboxes`), so they survive a restart, and
//! sessions created otherwise are sandboxes too.
//!
//! Invariant: a call of the control API needs an API key of this host with a sufficient scope; a
//! call of envd needs the access token of that one sandbox, or such a key (`auth`).

mod auth;
mod control;
mod envd;
#[cfg(fuzzing)]
pub mod fuzzing;
mod generated;
mod ingress_domain;
mod interpreter;
mod ports;
mod protocol;
mod rest;
mod route;
mod sandboxes;
mod service;
mod templates;

pub use auth::{ApiCaller, CallOwner, CallSlot, Keyring, NamedBy, api_key};
pub use envd::ResetOnClose;
pub use ports::PortRules;
pub use protocol::{ENVD_PORT, PORT, SANDBOX, Secure, TRAFFIC_TOKEN};
pub use rest::PortProblem;
pub use route::Route;
pub use sandboxes::SandboxCeilings;
pub use service::{E2b, Peer};
