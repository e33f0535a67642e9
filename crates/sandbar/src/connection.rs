//! Finding the server, the token for it, and whom to trust.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use sandbar_client::{Client, ConnectOptions, TlsOptions, WireProtocol};
use sandbar_core::{AccessToken, Error, ErrorCode, Result};

use crate::{env_vars, local_authority, local_files};

const LOCAL_DEFAULT: &str = "http://127.0.0.1:9100";

/// What `--ca-file` says: one command line is about one host, wherever in it a connection is made.
static TRUSTED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Trusts the authorities in a file, in place of all others.
pub(crate) fn trust(ca_file: Option<PathBuf>) {
    *TRUSTED.lock().unwrap_or_else(PoisonError::into_inner) = ca_file.filter(|path| !path.as_os_str().is_empty());
}

/// Where the server is: as given, else where the host on this machine says it listens, else where it listens by default.
pub(crate) fn server_url(given: Option<&str>) -> String {
    if let Some(url) = given.filter(|url| !url.is_empty()) {
        return url.to_owned();
    }
    local_files::read_address(&local_files::client_data_dir()).unwrap_or_else(|| LOCAL_DEFAULT.to_owned())
}

/// Connects to the server at a known URL with this token and no other.
pub(crate) async fn connect_as(url: &str, token: &AccessToken) -> Result<Client> {
    let token = Some(token.reveal().to_owned());
    let options = ConnectOptions { url: url.to_owned(), token, protocol: WireProtocol::default(), tls: tls_for(url) };
    Client::open(options).await
}

/// Connects to the server.
pub(crate) async fn connect(url: Option<&str>) -> Result<Client> {
    let url = server_url(url);
    let token = token_for(&url)?;
    let had_token = token.is_some();
    let tls = tls_for(&url);
    let connected = Client::open(ConnectOptions { url, token, protocol: WireProtocol::default(), tls }).await;
    connected.map_err(|error| explain_missing_token(error, had_token))
}

/// The token: as given, else the one in the client's data directory, which goes to the host of that directory only.
pub(crate) fn token_for(url: &str) -> Result<Option<String>> {
    if let Some(token) = std::env::var(env_vars::TOKEN).ok().filter(|token| !token.is_empty()) {
        return Ok(Some(token));
    }
    if is_local(url) { local_files::read_token(&local_files::client_data_dir()) } else { Ok(None) }
}

/// Whom to trust, and what to show: as given, else the authority of the host on this machine.
pub(crate) fn tls_for(url: &str) -> TlsOptions {
    let file = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let given = TRUSTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let own = || Some(local_authority::certificate_path(&local_files::client_data_dir()));
    let ca_file = given.or_else(|| own().filter(|path| is_local(url) && path.exists()));
    TlsOptions { ca_file, cert_file: file(env_vars::CLIENT_CERT), key_file: file(env_vars::CLIENT_KEY) }
}

/// Whether a URL is where the host of the client's data directory says it listens. Another port of this machine may be
/// another host's, or any program's.
fn is_local(url: &str) -> bool {
    local_files::read_address(&local_files::client_data_dir()).is_some_and(|own| is_same_server(url, &own))
}

fn explain_missing_token(error: Error, had_token: bool) -> Error {
    if error.code() == ErrorCode::Unauthenticated && !had_token {
        return error.with_hint("set SANDBAR_TOKEN, or SANDBAR_DATA_DIR to the data directory of the local host");
    }
    error
}

/// Whether a URL leads to the server at another, which has an address and a port.
fn is_same_server(url: &str, own: &str) -> bool {
    let Some((scheme, address)) = own.split_once("://") else { return false };
    let Some((given_scheme, rest)) = url.split_once("://") else { return false };
    let Ok(address) = address.parse::<SocketAddr>() else { return false };
    // Anything before an `@` is not the host, and makes the URL none of ours.
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let by_name = authority.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let is_near = address.ip() == Ipv4Addr::LOCALHOST || address.ip() == Ipv6Addr::LOCALHOST;
    given_scheme == scheme && (authority.parse() == Ok(address) || (is_near && by_name == Some(address.port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_token_is_for_the_url_of_its_own_host_only() {
        let own = "http://127.0.0.1:9100";
        for same in [own, "http://127.0.0.1:9100/", "http://localhost:9100", "http://127.0.0.1:9100/v1?a#b"] {
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
        assert!(is_same_server("https://localhost:9100", "https://[::1]:9100"));
        assert!(!is_same_server("http://localhost:9100", "http://192.0.2.1:9100"));
    }
}
