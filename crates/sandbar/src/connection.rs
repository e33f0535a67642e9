//! Finding the server and the token for it.

use sandbar_client::Client;
use sandbar_core::{Error, ErrorCode, Result};

use crate::{env_vars, local_files};

const LOCAL_DEFAULT: &str = "http://127.0.0.1:9100";

/// Where the server is: as given, else where the host on this machine says it listens, else where it listens by default.
pub(crate) fn server_url(given: Option<&str>) -> String {
    if let Some(url) = given.filter(|url| !url.is_empty()) {
        return url.to_owned();
    }
    local_files::read_address(&local_files::client_data_dir())
        .map_or_else(|| LOCAL_DEFAULT.to_owned(), |address| format!("http://{address}"))
}

/// Connects to the server.
pub(crate) async fn connect(url: Option<&str>) -> Result<Client> {
    let url = server_url(url);
    let token = token_for(&url)?;
    Client::connect(&url, token.as_deref()).await.map_err(|error| explain_missing_token(error, token.is_some()))
}

/// The token: as given, else the one of the host on this machine, which goes to this machine only.
pub(crate) fn token_for(url: &str) -> Result<Option<String>> {
    if let Some(token) = std::env::var(env_vars::TOKEN).ok().filter(|token| !token.is_empty()) {
        return Ok(Some(token));
    }
    if is_loopback(url) { local_files::read_token(&local_files::client_data_dir()) } else { Ok(None) }
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
