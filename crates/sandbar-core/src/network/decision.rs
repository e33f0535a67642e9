//! What was decided about a connection, and what went through.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::SecretName;

/// What was decided about one attempt to reach something. It holds no content: no path, no header, no secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NetworkDecision {
    pub verdict: NetworkVerdict,
    pub protocol: NetworkProtocol,
    /// The name that was asked for, if there was one.
    pub host: Option<String>,
    /// The address that was asked for, or the one that was connected to.
    pub address: Option<SocketAddr>,
    pub port: u16,
    /// Why, in a few words: the entry that matched, or what was missing.
    pub reason: String,
    /// The secrets that were put into it.
    pub secrets: Vec<SecretName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkVerdict {
    Allow,
    Deny,
}

/// How something was tried.
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
    pub const ALL: [Self; 6] = [Self::Dns, Self::Tcp, Self::Udp, Self::Tls, Self::Http, Self::Proxy];

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

/// What went through the gateway for a session since its host started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkTraffic {
    /// From the session to the outside.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Open now.
    pub connections: u64,
    pub allowed: u64,
    pub denied: u64,
}
