//! The network namespace of a session.
//!
//! It has a loopback and nothing else. Where the session's policy opens it, every address is local in it, and the kernel
//! hands whatever goes anywhere but to the session's own loopback to sockets that belong to the host: the *gate*. No packet
//! ever leaves the namespace. Where a session has a network stack that is not the kernel's, the gate is in a namespace of its
//! own, and a link between the two is all there is: see [`LinkedNetwork`].

mod addresses;
mod expressions;
mod filter;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gate;
mod link;
mod namespace;
mod netlink;
mod routes;
mod sockets;

pub use addresses::{BOX_V4, BOX_V6, GATE_PORT, GATEWAY_V4, GATEWAY_V6, PROXY_PORT};
pub use gate::{open_gate, open_linked_gate, reopen_udp};
pub use link::raise_loopback;
pub use namespace::{LinkedNetwork, current, in_namespace, make};
pub use sockets::{GateSockets, UdpGate};
