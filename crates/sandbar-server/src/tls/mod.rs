//! TLS in front of everything on the port.
//!
//! Invariant: where TLS is configured nothing is answered without it, except that it is needed; and with an authority for
//! clients nobody gets as far as a request without a certificate of it. The token is asked for all the same.

mod config;
mod handshake;
mod local;
mod pem;
mod plain;
mod reload;

pub use config::{TlsConfig, TlsIdentity};
pub(crate) use handshake::shake_hands;
pub use local::LocalIdentity;
pub(crate) use reload::Tls;
