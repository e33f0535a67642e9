//! Network decisions and traffic of a session.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::SecretName;

/// Decision about one connection attempt. It has no content: no path, no header, no secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NetworkDecision {
    pub verdict: NetworkVerdict,
    pub protocol: NetworkProtocol,
    /// Requested host name, if there was one.
    pub host: Option<String>,
    /// Requested address, or the one that was connected to.
    pub address: Option<SocketAddr>,
    pub port: u16,
    /// Reason: the entry that matched, or the missing permission.
    pub reason: String,
    /// Secrets that were added to the request.
    pub secrets: Vec<SecretName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkVerdict {
    Allow,
    Deny,
}

/// Protocol of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkProtocol {
    Dns,
    Tcp,
    Udp,
    Tls,
    Http,
    /// Through the explicit proxy.
    Proxy,
}

impl NetworkVerdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

impl NetworkProtocol {
    pub const ALL: [Self; 6] = [
        Self::Dns,
        Self::Tcp,
        Self::Udp,
        Self::Tls,
        Self::Http,
        Self::Proxy,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Proxy => "proxy",
        }
    }
}

/// Traffic of a session since its host started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkTraffic {
    /// From the session to servers.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Open connections.
    pub connections: u64,
    pub allowed: u64,
    pub denied: u64,
}
