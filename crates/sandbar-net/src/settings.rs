//! What the gateway is told.

use std::{net::SocketAddr, path::PathBuf};

/// The settings of a host's gateway. All of them have a default that works.
#[derive(Clone, Debug, Default)]
pub struct GatewaySettings {
    /// Servers that are asked for names; those of `/etc/resolv.conf` when empty.
    pub dns_servers: Vec<SocketAddr>,
    /// Certificates in PEM that servers are trusted by, beside the system's.
    pub trusted_certificates: Option<PathBuf>,
}
