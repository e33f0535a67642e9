//! Connections to a host: its URL, the access token and the TLS trust anchors.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use sandbar_client::{Client, ConnectOptions, TlsOptions, WireProtocol};
use sandbar_core::{AccessToken, Error, ErrorCode, Result};

use crate::{
    env_vars,
    local_host::{authority, discovery},
};

const LOCAL_DEFAULT: &str = "http://127.0.0.1:9100";

/// Options of the command line that say which host to connect to and how to verify it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionOptions {
    url: Option<String>,
    ca_file: Option<PathBuf>,
}

impl ConnectionOptions {
    /// Takes the values of `--url` and `--ca-file`; an empty one counts as absent.
    pub(crate) fn new(url: Option<String>, ca_file: Option<PathBuf>) -> Self {
        Self {
            url: url.filter(|url| !url.is_empty()),
            ca_file: ca_file.filter(|path| !path.as_os_str().is_empty()),
        }
    }

    /// Returns the URL of the host: as given, else the address in the local data directory, else
    /// the default.
    pub(crate) fn url(&self) -> String {
        self.url.clone().unwrap_or_else(|| {
            discovery::read_address(&discovery::client_data_dir())
                .unwrap_or_else(|| LOCAL_DEFAULT.to_owned())
        })
    }

    /// Connects to the host.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let url = self.url();
        let token = token_for(&url)?;
        let had_token = token.is_some();
        let connected = self.open(url, token).await;
        connected.map_err(|error| explain_missing_token(error, had_token))
    }

    /// Connects to the host at a known URL with this token and no other.
    pub(crate) async fn connect_as(&self, url: &str, token: &AccessToken) -> Result<Client> {
        self.open(url.to_owned(), Some(token.reveal().to_owned()))
            .await
    }

    async fn open(&self, url: String, token: Option<String>) -> Result<Client> {
        let tls = self.tls_for(&url);
        Client::open(ConnectOptions {
            url,
            token,
            protocol: WireProtocol::default(),
            tls,
        })
        .await
    }

    /// Returns the trust anchors and the client certificate for a URL. Without `--ca-file`, a URL
    /// of the host on this machine is verified with that host's own authority.
    pub(crate) fn tls_for(&self, url: &str) -> TlsOptions {
        let file = |name| {
            std::env::var_os(name)
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        };
        let own = || {
            Some(authority::certificate_path(&discovery::client_data_dir()))
                .filter(|path| is_local(url) && path.exists())
        };
        TlsOptions {
            ca_file: self.ca_file.clone().or_else(own),
            cert_file: file(env_vars::CLIENT_CERT),
            key_file: file(env_vars::CLIENT_KEY),
        }
    }
}

/// Returns the token for a URL: `SANDBAR_TOKEN`, else the one in the client's data directory, which
/// is sent to the host of that directory only.
pub(crate) fn token_for(url: &str) -> Result<Option<String>> {
    if let Some(token) = std::env::var(env_vars::TOKEN)
        .ok()
        .filter(|token| !token.is_empty())
    {
        return Ok(Some(token));
    }
    if is_local(url) {
        discovery::read_token(&discovery::client_data_dir())
    } else {
        Ok(None)
    }
}

/// Returns whether a URL is the address that the host of the client's data directory listens on.
/// Another port of this machine may belong to another host, or to any program.
fn is_local(url: &str) -> bool {
    discovery::read_address(&discovery::client_data_dir())
        .is_some_and(|own| is_same_server(url, &own))
}

fn explain_missing_token(error: Error, had_token: bool) -> Error {
    if error.code() == ErrorCode::Unauthenticated && !had_token {
        return error.with_hint(
            "set SANDBAR_TOKEN, or SANDBAR_DATA_DIR to the data directory of the local host",
        );
    }
    error
}

/// Returns whether `url` names the same server as `own`, which has an IP address and a port.
fn is_same_server(url: &str, own: &str) -> bool {
    let Some((scheme, address)) = own.split_once("://") else {
        return false;
    };
    let Some((given_scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let Ok(address) = address.parse::<SocketAddr>() else {
        return false;
    };
    // An authority with user information does not parse as an address, so it never matches.
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let by_name = authority
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok());
    let is_near = address.ip() == Ipv4Addr::LOCALHOST || address.ip() == Ipv6Addr::LOCALHOST;
    given_scheme == scheme
        && (authority.parse() == Ok(address) || (is_near && by_name == Some(address.port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_token_is_for_the_url_of_its_own_host_only() {
        let own = "http://127.0.0.1:9100";
        for same in [
            own,
            "http://127.0.0.1:9100/",
            "http://localhost:9100",
            "http://127.0.0.1:9100/v1?a#b",
        ] {
            assert!(is_same_server(same, own), "{same}");
        }
        for other in [
            "http://127.0.0.1:9200",
            "http://localhost:9200",
            "http://127.0.0.2:9100",
            "http://[::1]:9100",
            "https://127.0.0.1:9100",
            "http://10.0.0.1:9100",
            "http://localhost",
            "http://localhost.example.com:9100",
            "http://127.0.0.1:9100@example.com/",
            "http://127.0.0.1:9100.example.com/",
            "127.0.0.1:9100",
            "",
        ] {
            assert!(!is_same_server(other, own), "{other}");
        }
        assert!(is_same_server(
            "https://localhost:9100",
            "https://[::1]:9100"
        ));
        assert!(!is_same_server(
            "http://localhost:9100",
            "http://192.0.2.1:9100"
        ));
    }
}
