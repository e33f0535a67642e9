//! The API the unmodified E2B SDKs speak, over a Sandbar host.
//!
//! Three parts on one port. The **control** API is REST: sandboxes, their life, snapshots, templates. **envd** is what E2B
//! runs inside a sandbox and we run beside it: commands and files over Connect, contents over plain HTTP. The **code
//! interpreter** is a small server in the sandbox. Which of them a request is for is said by its path, by the headers
//! `E2b-Sandbox-Id` and `E2b-Sandbox-Port`, or by its host name ([`Place`]). Other ports of sandboxes are reached through
//! the server's own ingress, by what E2B says about them ([`PortRules`]).
//!
//! A sandbox is a session, its metadata are the labels of it, a template is a base. What E2B knows beyond that is in one
//! note of the session (`sandbox.rs`), so that nothing is lost with the host, and sessions that were made otherwise are
//! sandboxes too.
//!
//! Invariant: nothing of the control API is done without a key of this host whose scope is enough, and nothing of envd
//! without the access token of that one sandbox or such a key.

mod answer;
mod control;
mod cors;
mod envd;
#[cfg(fuzzing)]
pub mod fuzzing;
mod generated;
mod hearing;
mod interpreter;
mod json;
mod keys;
mod links;
mod place;
mod port_answer;
mod ports;
mod reach;
mod sandbox;
mod surface;
mod templates;
mod turns;
mod visitor;
mod wake;

pub use envd::ResetOnClose;
pub use keys::{Holder, Keyring, api_key};
pub use place::{ENVD_PORT, NamedBy, PORT, Place, SANDBOX, Secure};
pub use port_answer::PortProblem;
pub use ports::{PortRules, TRAFFIC_TOKEN};
pub use surface::E2b;
