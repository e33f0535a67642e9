//! The network namespace of a session.
//!
//! It has only a loopback interface. If the session's policy allows egress, a route makes every
//! address local in it, and nftables rules deliver all traffic except to the session's own loopback
//! to transparent sockets of the host: the *netns listeners*. No packet leaves the namespace. A
//! session with a network stack of its own (gVisor) is connected by a veth pair to a second
//! namespace that has the listeners: see [`LinkedNetwork`].

mod addresses;
mod expressions;
mod filter;
#[cfg(fuzzing)]
pub mod fuzzing;
mod link;
mod listener_sockets;
mod listeners;
mod namespace;
mod netlink;
mod routes;

pub use addresses::{BOX_V4, BOX_V6, GATEWAY_V4, GATEWAY_V6, PROXY_PORT, TCP_LISTENER_PORT};
pub use link::raise_loopback;
pub use listener_sockets::{NetnsListeners, UdpListener};
pub use listeners::{open_linked_listeners, open_listeners, reopen_udp};
pub use namespace::{LinkedNetwork, create, current, in_namespace};
