//! Parses the first bytes of a connection to find out where it wants to go.
//!
//! Everything here is a pure function of bytes, and strict: whatever a server might accept as TLS
//! or HTTP is classified as that, however oddly it is spelled. A connection that carries a host
//! name must never pass as a protocol without one.

mod client_hello;
mod host_port;
mod http_start;
mod opening;
mod proxy_request;

pub(crate) use client_hello::{ClientHello, Sni};
pub(crate) use host_port::HostPort;
pub(crate) use opening::{MAX_OPENING_BYTES, Opening, may_carry_name, opening};
pub(crate) use proxy_request::{ProxyOpening, proxy_request};

#[cfg(test)]
mod tests;
