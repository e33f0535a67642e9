//! Settings of the gateway.

use std::{net::SocketAddr, path::PathBuf};

/// Settings of a host's gateway. The defaults work.
#[derive(Clone, Debug, Default)]
pub struct GatewaySettings {
    /// Name servers to query; those of `/etc/resolv.conf` when empty.
    pub dns_servers: Vec<SocketAddr>,
    /// PEM file with CA certificates that are trusted in addition to the system's.
    pub trusted_certificates: Option<PathBuf>,
}
