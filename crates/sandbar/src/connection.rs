//! Finding the server, the token for it, and whom to trust.

use std::{
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

/// The token: as given, else the one of the host on this machine, which goes to this machine only.
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

/// Whether a URL is that of the host on this machine, or can only mean this machine.
fn is_local(url: &str) -> bool {
    is_loopback(url) || local_files::read_address(&local_files::client_data_dir()).as_deref() == Some(url)
}

fn explain_missing_token(error: Error, had_token: bool) -> Error {
    if error.code() == ErrorCode::Unauthenticated && !had_token {
        return error.with_hint("set SANDBAR_TOKEN, or SANDBAR_DATA_DIR to the data directory of the local host");
    }
    error
}

/// Whether a URL can only mean this machine.
fn is_loopback(url: &str) -> bool {
    let Some(rest) = url.split_once("://").map(|(_, rest)| rest) else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // Anything before an `@` is not the host.
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host == "localhost" || host.starts_with("localhost:") {
        return true;
    }
    host.parse::<std::net::SocketAddr>()
        .map(|address| address.ip())
        .or_else(|_| host.trim_matches(['[', ']']).parse::<std::net::IpAddr>())
        .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_token_goes_to_this_machine_only() {
        for near in ["http://127.0.0.1:9100", "http://localhost:1/", "http://[::1]:9100", "http://127.8.8.8"] {
            assert!(is_loopback(near), "{near}");
        }
        for far in [
            "http://10.0.0.1:9100",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com:80",
            "http://127.0.0.1@example.com/",
            "example.com",
            "",
        ] {
            assert!(!is_loopback(far), "{far}");
        }
    }
}
