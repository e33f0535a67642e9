//! Kind of a client connection.

use std::net::SocketAddr;

use sandbar_core::DomainName;

/// Kind of a client connection. It decides which requests are valid on it.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A connection to the explicit proxy: requests have absolute URIs.
    Explicit,
    /// Plain HTTP to this original destination.
    Transparent { to: SocketAddr },
    /// TLS that was terminated here. Requests must be for this host.
    Intercepted { name: DomainName, port: u16 },
}
