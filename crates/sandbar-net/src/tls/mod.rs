//! TLS at both ends of the gateway: towards a session with certificates of its own authority, towards servers with the
//! roots the host trusts.

mod authority;
mod certificates;
mod intercept;
mod upstream;

pub use authority::Authority;
pub(crate) use intercept::intercept;
pub(crate) use upstream::{Speak, UpstreamTls};

#[cfg(test)]
mod tests;
