//! TLS of the port.
//!
//! Invariant: where TLS is configured, a plaintext request gets only the response that TLS is
//! needed. Where a client CA is configured, a connection without a certificate of it fails in the
//! handshake, before any request. Requests need a token in addition.

mod config;
mod handshake;
mod local;
mod pem;
mod plain;
mod reload;

pub use config::{TlsConfig, TlsIdentity};
pub(crate) use handshake::accept_tls;
pub use local::LocalIdentity;
pub(crate) use reload::Tls;
