//! What the first bytes of a connection say about where it wants to go.
//!
//! Everything here is a function of bytes. It is strict: what a server might read as TLS or HTTP is called that, also where it
//! is spelled oddly, so that nothing with a name in it passes as a protocol that has none.

mod client_hello;
mod host_port;
mod http_start;
mod proxy_request;

pub(crate) use client_hello::{ClientHello, Sni};
pub(crate) use host_port::HostPort;
pub(crate) use proxy_request::{ProxyOpening, proxy_request};

/// More bytes than this are not looked at; what is undecided then is decided against the client.
pub(crate) const MOST_OPENING: usize = 64 * 1024;

/// How a connection begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// More bytes are needed. Never said of [`MOST_OPENING`] bytes or more.
    Unfinished,
    Tls(ClientHello),
    Http,
    Other,
}

/// Looks at what the client has sent so far.
pub(crate) fn opening(bytes: &[u8]) -> Opening {
    match client_hello::read(bytes) {
        Opening::Other => http_start::read(bytes),
        decided => decided,
    }
}

#[cfg(test)]
mod tests;
