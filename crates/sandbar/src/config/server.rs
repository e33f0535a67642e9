//! Configuration of the server: listener, TLS, timeouts and the name server.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    path::PathBuf,
    time::Duration,
};

use sandbar_core::{DomainName, Error, Result, RootRights, duration_text};
use sandbar_host::refuse_lent;
use serde::{Deserialize, Serialize};

/// Configuration of the server. The host itself has no network settings for the API.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerConfig {
    /// Address and port of the API. Port 0 takes any free port.
    pub(crate) listen: SocketAddr,
    /// Allows plain HTTP on an address that is not loopback.
    pub(crate) insecure: bool,
    /// Ends a stream whose client reads nothing for this long.
    #[serde(with = "duration_text")]
    pub(crate) slow_reader_timeout: Duration,
    /// Concurrent calls per access token; 0 is unlimited.
    pub(crate) max_calls_per_token: usize,
    /// Open connections; half of the file descriptors when unset.
    pub(crate) max_connections: Option<NonZeroUsize>,
    /// Deadline of unary calls that carry none; `0s` is no deadline.
    #[serde(with = "duration_text")]
    pub(crate) request_timeout: Duration,
    /// Serves TLS with certificates of the local authority.
    pub(crate) tls: TlsMode,
    /// Certificate chain to serve TLS with, PEM, leaf first.
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// Private key of that certificate, PEM.
    pub(crate) tls_key_file: Option<PathBuf>,
    /// Authorities, PEM: clients must present a certificate that one of them issued.
    pub(crate) tls_client_ca_file: Option<PathBuf>,
    /// Address of the name server for the host's domain. Port 0 takes any free port.
    pub(crate) dns_listen: Option<SocketAddr>,
    /// Whether E2B sandboxes reach everything public unless their settings say otherwise.
    pub(crate) e2b_open_egress: bool,
    /// Whether ports of E2B sandboxes need no token unless their settings say otherwise.
    pub(crate) e2b_public_ports: bool,
    /// Rights of root in E2B sandboxes, if the host supports them.
    #[serde(with = "root_rights_text")]
    pub(crate) e2b_root_rights: RootRights,
}

/// Source of certificates other than files.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TlsMode {
    /// None: plain HTTP unless certificate files are configured.
    #[default]
    Off,
    /// The local authority in the data directory, created on first use.
    Auto,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9100),
            insecure: false,
            max_calls_per_token: sandbar_server::ServerConfig::MAX_CALLS_PER_TOKEN,
            max_connections: None,
            request_timeout: sandbar_server::ServerConfig::REQUEST_TIMEOUT,
            tls: TlsMode::Off,
            tls_cert_file: None,
            tls_key_file: None,
            tls_client_ca_file: None,
            dns_listen: None,
            e2b_open_egress: true,
            e2b_public_ports: true,
            e2b_root_rights: RootRights::Own,
            slow_reader_timeout: sandbar_server::ServerConfig::SLOW_READER_TIMEOUT,
        }
    }
}

impl ServerConfig {
    /// Returns whether the API is served over TLS.
    pub(crate) fn speaks_tls(&self) -> bool {
        self.tls == TlsMode::Auto || self.tls_cert_file.is_some()
    }

    /// Checks what the types cannot express: values and combinations of keys.
    pub(super) fn validate(&self) -> Result<()> {
        if let Some(path) = &self.tls_key_file {
            refuse_lent("tls_key_file", "TLS key", path, "move it")?;
        }
        let refuse = |key: &'static str, message: &str, hint: &str| {
            Err(Error::invalid(key, message).with_hint(hint))
        };
        if self.slow_reader_timeout.is_zero() {
            return refuse(
                "slow_reader_timeout",
                "slow reader timeout is zero",
                "set `slow_reader_timeout` to a positive time such as `5m`",
            );
        }
        match (&self.tls_cert_file, &self.tls_key_file) {
            (Some(_), None) => {
                return refuse(
                    "tls_key_file",
                    "TLS certificate has no key",
                    "give --tls-key as well",
                );
            }
            (None, Some(_)) => {
                return refuse(
                    "tls_cert_file",
                    "TLS key has no certificate",
                    "give --tls-cert as well",
                );
            }
            (Some(_), Some(_)) if self.tls == TlsMode::Auto => {
                return refuse(
                    "tls",
                    "`tls = \"auto\"` conflicts with a configured certificate",
                    "leave out --tls auto, or --tls-cert and --tls-key",
                );
            }
            _ => {}
        }
        if self.tls_client_ca_file.is_some() && !self.speaks_tls() {
            return refuse(
                "tls_client_ca_file",
                "client certificates need TLS",
                "give --tls auto, or --tls-cert and --tls-key",
            );
        }
        Ok(())
    }

    /// Checks that the name server has a domain to answer for and gives out reachable addresses.
    pub(super) fn validate_names(&self, domain: &DomainName) -> Result<()> {
        let Some(address) = self.dns_listen else {
            return Ok(());
        };
        if *domain == DomainName::localhost() {
            return Err(Error::invalid(
                "dns_listen",
                "name server has no domain other than `localhost`",
            )
            .with_hint("give --domain a name of your own, for example sbx.test"));
        }
        if self.listen.ip().is_loopback() && !address.ip().is_loopback() {
            return Err(Error::invalid(
                "dns_listen",
                format!(
                    "name server on {address} would give other machines the loopback address {}",
                    self.listen.ip()
                ),
            )
            .with_hint(
                "give --dns a loopback address, or --listen one that other machines reach",
            ));
        }
        Ok(())
    }
}

/// Root rights as text in the configuration.
mod root_rights_text {
    use sandbar_core::RootRights;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(super) fn serialize<S: Serializer>(
        rights: &RootRights,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(rights.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<RootRights, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}
