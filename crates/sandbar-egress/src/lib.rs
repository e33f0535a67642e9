//! The egress gateway: decides by name which destinations a session may reach, and records every
//! decision.
//!
//! All traffic of a session's network namespace arrives at [sockets](sandbar_netns) that belong to
//! the host; the gateway serves them. It determines the destination of a connection (DNS, SNI,
//! `Host`, `CONNECT` or the bare address), evaluates the session's [rules], connects to an address
//! that it has resolved and checked itself, and relays the bytes. For hosts that get a secret it
//! terminates TLS with a certificate of a CA that only this session trusts, and adds the secret to
//! each request.
//!
//! Modules depend on each other in one direction: `gateway` → `listener` → `http` → `tls`, with
//! `rules`, `sniff` and `dns` below.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "tests start programs and tasks as they need"
    )
)]

mod dial;
mod dns;
mod egress_context;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gateway;
mod hooks;
mod host_addresses;
mod http;
mod listener;
mod meter;
mod refusal;
mod rules;
mod session_egress;
mod settings;
mod shared;
mod sniff;
mod tls;
mod token_bucket;
mod traffic;

pub use dns::{NameServer, Zone};
pub use gateway::{EgressListener, Gateway};
pub use hooks::{DecisionSink, Secrets, SessionHooks};
pub use settings::GatewaySettings;
pub use tls::Authority;
pub use traffic::TrafficCounters;
