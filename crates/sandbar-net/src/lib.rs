//! The egress gateway: what sessions may reach, decided by name, with a record of every decision.
//!
//! A session's network namespace ends at a [gate](sandbar_netns): sockets that belong to the host. The gateway serves them.
//! It finds out what a connection is for (DNS, SNI, `Host`, `CONNECT`, or just an address), asks the [rules] whether that may
//! be, connects to an address *it* has looked up and checked, and moves the bytes. For hosts with a secret it ends TLS itself,
//! with a certificate of an authority only this session trusts, and puts the secret into the request.

mod dns;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gate;
mod gateway;
mod hooks;
mod host_addresses;
mod http;
mod meter;
mod rules;
mod session_gate;
mod settings;
mod sniff;
mod tls;
mod token_bucket;
mod traffic;

pub use dns::{NameServer, Zone};
pub use gateway::{Gate, Gateway, SessionHooks};
pub use hooks::{DecisionSink, Secrets};
pub use settings::GatewaySettings;
pub use tls::Authority;
pub use traffic::TrafficCounters;
