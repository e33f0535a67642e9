//! TLS at both ends of the gateway: towards a session with certificates of the session's own CA,
//! towards servers with the root certificates that the host trusts.

mod authority;
mod certificate_cache;
mod upstream;

pub use authority::Authority;
pub(crate) use upstream::{HttpVersions, UpstreamTls};

#[cfg(test)]
mod tests;
