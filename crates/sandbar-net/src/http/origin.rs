//! How a connection came to the engine.

use std::net::SocketAddr;

use sandbar_core::DomainName;

/// How a connection came to the engine, which says what its requests may look like.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The session asked the proxy: requests name the whole URI.
    Explicit,
    /// Plain HTTP that was meant for this address.
    Transparent { to: SocketAddr },
    /// TLS that was opened here; the connection was made for this host and no other.
    Intercepted { name: DomainName, port: u16 },
}
