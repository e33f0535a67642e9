//! Parsing of the session and port that a request is for.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, Request, header, uri::Authority};
use sandbar_core::{DomainName, Error, ErrorCode, Result, SessionId};
use sandbar_e2b::{ENVD_PORT, NamedBy, Route};

/// Header with the session id, where the host name has none. Goes with [`PORT`].
pub(super) const SESSION: HeaderName = HeaderName::from_static("x-sandbar-session");
pub(super) const PORT: HeaderName = HeaderName::from_static("x-sandbar-port");

/// Port of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) session: SessionId,
    pub(crate) port: u16,
    pub(super) found_by: FoundBy,
    /// `None` when the session was named by the host name, which both dialects use.
    pub(super) dialect: Option<Dialect>,
}

/// API family of a request, which error responses follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Native,
    E2b,
}

impl Dialect {
    /// Returns the dialect of the headers that name a session.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        if headers.contains_key(SESSION) || headers.contains_key(PORT) {
            return Some(Self::Native);
        }
        headers
            .contains_key(sandbar_e2b::SANDBOX)
            .then_some(Self::E2b)
    }
}

impl Target {
    /// Returns the part of the E2B surface that is served on this port; `None` when the request is
    /// for the server in the session.
    pub(crate) fn e2b_route(&self) -> Option<Route> {
        let named_by = if self.found_by == FoundBy::HeadersElsewhere {
            NamedBy::ForeignName
        } else {
            NamedBy::OwnName
        };
        // Our own headers always mean the server in the session.
        let is_e2b = self.dialect != Some(Dialect::Native);
        Route::of_port(self.session.as_str(), self.port, named_by).filter(|_| is_e2b)
    }
}

/// Part of the request that named the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundBy {
    /// The host name.
    Name,
    /// Headers, in a request to an IP address or a name of this host.
    Headers,
    /// Headers, in a request to a foreign name that resolves to this machine. Such a request can
    /// come from a web page by DNS rebinding.
    HeadersElsewhere,
}

/// Returns the target of a request; `None` for the API.
pub(super) fn of<B>(request: &Request<B>, domain: &DomainName) -> Result<Option<Target>> {
    let host = host_name(request)?;
    if let Some(target) = host
        .as_deref()
        .and_then(|host| by_name(host, domain))
        .transpose()?
    {
        return Ok(Some(target));
    }
    let field = |name: &HeaderName| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap_or_default())
    };
    let dialect = Dialect::of(request.headers());
    let (session, port) = match dialect {
        None => return Ok(None),
        Some(Dialect::Native) => {
            let (Some(session), Some(port)) = (field(&SESSION), field(&PORT)) else {
                return Err(Error::invalid(
                    "x-sandbar-port",
                    "one of the headers `x-sandbar-session` and `x-sandbar-port` is missing",
                )
                .with_hint("send `x-sandbar-session: ID` and `x-sandbar-port: PORT`"));
            };
            (SessionId::new(session)?, parse_port(port)?)
        }
        Some(Dialect::E2b) => {
            let sandbox = field(&sandbar_e2b::SANDBOX).unwrap_or_default();
            let port = field(&sandbar_e2b::PORT).map_or(Ok(ENVD_PORT), parse_port)?;
            if is_control_call(request.uri().path(), host.as_deref(), port, domain) {
                return Ok(None);
            }
            (
                SessionId::new(sandbox).map_err(|error| no_sandbox(sandbox, error))?,
                port,
            )
        }
    };
    let is_ours = host
        .as_deref()
        .is_some_and(|host| is_own_name(host, domain));
    let found_by = if is_ours {
        FoundBy::Headers
    } else {
        FoundBy::HeadersElsewhere
    };
    Ok(Some(Target {
        session,
        port,
        found_by,
        dialect,
    }))
}

/// Reports whether a request with E2B's sandbox headers is for the control API: the Python SDK up
/// to 2.26 sends these headers with `Sandbox.connect` as well. envd has none of the control API's
/// paths.
fn is_control_call(path: &str, host: Option<&str>, port: u16, domain: &DomainName) -> bool {
    let is_api = host.and_then(|host| host.strip_prefix("api.")) == Some(domain.as_str());
    is_api || (port == ENVD_PORT && Route::is_control_path(path))
}

/// Maps an invalid id to "not found", as E2B clients expect.
fn no_sandbox(id: &str, error: Error) -> Error {
    Error::new(
        ErrorCode::SessionNotFound,
        format!("session `{}` not found", id.escape_debug()),
    )
    .with_hint("use the id that `sandbar ls` shows")
    .with_source(error)
}

/// Returns the host name of a request in lower case.
fn host_name<B>(request: &Request<B>) -> Result<Option<String>> {
    let mut fields = request.headers().get_all(header::HOST).iter();
    let (first, second) = (fields.next(), fields.next());
    if second.is_some() {
        return Err(
            Error::invalid("host", "request has more than one `host` header")
                .with_hint("send one `host` header"),
        );
    }
    // The authority of the request target takes precedence over the header (RFC 9112, section 3.2).
    let authority = match (request.uri().authority(), first) {
        (Some(authority), _) => Some(authority.clone()),
        (None, Some(field)) => Authority::try_from(field.as_bytes()).ok(),
        (None, None) => None,
    };
    Ok(authority.map(|authority| {
        let host = authority.host();
        host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
    }))
}

/// Parses `<port>-<session>.<domain>`: cuts at the domain, then at the first `-`. Session ids with
/// upper case or dots are reached by headers only. A name that begins with a number and `-` is
/// never the API.
fn by_name(host: &str, domain: &DomainName) -> Option<Result<Target>> {
    let (port, session) = host
        .strip_suffix(domain.as_str())?
        .strip_suffix('.')?
        .split_once('-')?;
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(parse_port(port).and_then(|port| {
        if session.contains('.') {
            return Err(Error::new(ErrorCode::SessionNotFound, format!("session with host name `{host}` not found"))
                .with_hint(format!(
                    "use `{port}-ID.{domain}`; send `x-sandbar-session` and `x-sandbar-port` for an id with dots"
                )));
        }
        Ok(Target { session: SessionId::new(session)?, port, found_by: FoundBy::Name, dialect: None })
    }))
}

fn parse_port(text: &str) -> Result<u16> {
    // Only the canonical form, so that a port has exactly one origin.
    let port = text
        .parse()
        .ok()
        .filter(|port: &u16| *port > 0 && port.to_string() == text);
    port.ok_or_else(|| {
        Error::invalid(
            "port",
            format!("port `{}` is not valid", text.escape_debug()),
        )
        .with_hint("use a number between 1 and 65535")
    })
}

/// Reports whether a name is safe from DNS rebinding: an address, or a name of this host.
fn is_own_name(host: &str, domain: &DomainName) -> bool {
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let below = |domain: &str| {
        host.strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    address.parse::<IpAddr>().is_ok() || host == "localhost" || below(domain.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uri: &str, headers: &[(&str, &str)]) -> Result<Option<Target>> {
        let mut request = Request::get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        of(
            &request.body(()).unwrap(),
            &"boxes.example".parse().unwrap(),
        )
    }

    fn named(host: &str) -> Result<Option<Target>> {
        target("/", &[("host", host)])
    }

    #[test]
    fn host_name_is_cut_at_the_domain_and_the_first_dash() {
        for (host, session, port) in [
            ("3000-s1.boxes.example", "s1", 3000),
            ("3000-S1.Boxes.Example:9100", "s1", 3000),
            ("1-a-b_c-.boxes.example.", "a-b_c-", 1),
            ("65535-80-90.boxes.example:80", "80-90", 65535),
        ] {
            let target = named(host).unwrap().unwrap();
            assert_eq!(
                (target.session.as_str(), target.port, target.found_by),
                (session, port, FoundBy::Name),
                "{host}"
            );
        }
        let by_line = target("http://80-s2.boxes.example/x", &[("host", "boxes.example")])
            .unwrap()
            .unwrap();
        assert_eq!(by_line.session.as_str(), "s2");
    }

    #[test]
    fn other_host_names_are_for_the_api() {
        for host in [
            "boxes.example",
            "api.boxes.example",
            "a-b.boxes.example",
            "-s1.boxes.example",
            "3000.boxes.example",
            "3000-s1.example",
            "3000-s1.boxes.example.evil.test",
            "3000-s1.evilboxes.example",
            "3000-s1boxes.example",
            "127.0.0.1:9100",
            "[::1]:9100",
            "",
            "%",
        ] {
            assert_eq!(named(host).unwrap(), None, "{host}");
        }
        assert_eq!(target("/", &[]).unwrap(), None);
    }

    #[test]
    fn host_name_with_invalid_port_or_session_is_rejected() {
        for (host, code) in [
            ("0-s1.boxes.example", ErrorCode::InvalidArgument),
            ("080-s1.boxes.example", ErrorCode::InvalidArgument),
            ("65536-s1.boxes.example", ErrorCode::InvalidArgument),
            ("80-.boxes.example", ErrorCode::InvalidArgument),
            ("80--a.boxes.example", ErrorCode::InvalidArgument),
            ("80-a.b.boxes.example", ErrorCode::SessionNotFound),
        ] {
            let error = named(host).unwrap_err();
            assert_eq!(error.code(), code, "{host}");
            assert!(error.hint().is_some(), "{host}");
        }
        assert!(target("/", &[("host", "a"), ("host", "80-s1.boxes.example")]).is_err());
    }

    #[test]
    fn session_headers_yield_to_the_host_name() {
        let headers = |host| {
            [
                ("host", host),
                ("x-sandbar-session", "A.b_C"),
                ("x-sandbar-port", "80"),
            ]
        };
        for (host, found_by) in [
            ("127.0.0.1:9100", FoundBy::Headers),
            ("[::1]", FoundBy::Headers),
            ("localhost", FoundBy::Headers),
            ("boxes.example:9100", FoundBy::Headers),
            ("api.boxes.example", FoundBy::Headers),
            ("evil.test", FoundBy::HeadersElsewhere),
            ("evilboxes.example", FoundBy::HeadersElsewhere),
        ] {
            let target = target("/", &headers(host)).unwrap().unwrap();
            assert_eq!(
                (target.session.as_str(), target.port, target.found_by),
                ("A.b_C", 80, found_by),
                "{host}"
            );
        }
        assert_eq!(
            target("/", &headers("80-s1.boxes.example"))
                .unwrap()
                .unwrap()
                .session
                .as_str(),
            "s1"
        );
        assert!(target("/", &[("x-sandbar-session", "s1")]).is_err());
        assert!(
            target(
                "/",
                &[("x-sandbar-session", "s1"), ("x-sandbar-port", "http")]
            )
            .is_err()
        );
    }

    #[test]
    fn e2b_headers_name_a_sandbox_unless_ours_do() {
        let headers = |host, port| {
            [
                ("host", host),
                ("e2b-sandbox-id", "s1"),
                ("e2b-sandbox-port", port),
            ]
        };
        let found = |headers: &[(&str, &str)]| target("/", headers).unwrap().unwrap();
        let agent = found(&headers("sandbox.boxes.example:9100", "49983"));
        assert_eq!(
            (agent.session.as_str(), agent.port, agent.found_by),
            ("s1", 49983, FoundBy::Headers)
        );
        assert_eq!(
            agent,
            found(&headers("127.0.0.1", "49983")[..2]),
            "the agent's port is the usual one"
        );
        assert_eq!(
            agent.e2b_route(),
            Route::of_port("s1", 49983, NamedBy::OwnName)
        );
        let elsewhere = found(&headers("evil.test", "49983"));
        assert_eq!(
            elsewhere.e2b_route(),
            Route::of_port("s1", 49983, NamedBy::ForeignName)
        );
        assert_eq!(found(&headers("localhost", "3000")).e2b_route(), None);
        assert_eq!(
            found(&headers("49983-s2.boxes.example", "3000"))
                .session
                .as_str(),
            "s2"
        );
        let native = [("x-sandbar-session", "s3"), ("x-sandbar-port", "49983")];
        assert_eq!(
            found(&[&headers("localhost", "1")[..], &native].concat())
                .session
                .as_str(),
            "s3"
        );
        assert_eq!(
            found(&native).e2b_route(),
            None,
            "the port itself was meant"
        );
        for bad in [
            &[("e2b-sandbox-id", "a/b")][..],
            &[("e2b-sandbox-id", "s1"), ("e2b-sandbox-port", "0")],
        ] {
            assert!(target("/", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn control_calls_with_e2b_headers_are_for_the_api() {
        let headers = |host, port| {
            [
                ("host", host),
                ("e2b-sandbox-id", "s1"),
                ("e2b-sandbox-port", port),
            ]
        };
        let connect = "/sandboxes/s1/connect";
        assert_eq!(
            target(connect, &headers("127.0.0.1:9100", "49983")).unwrap(),
            None
        );
        assert_eq!(
            target(connect, &headers("127.0.0.1:9100", "49983")[..2]).unwrap(),
            None
        );
        for path in [connect, "/v2/sandboxes/s1/connect", "/health"] {
            assert_eq!(
                target(path, &headers("api.boxes.example", "49983")).unwrap(),
                None,
                "{path}"
            );
        }
        for (path, host, port) in [
            (connect, "127.0.0.1:9100", "3000"),
            (connect, "49983-s1.boxes.example", "49983"),
            ("/health", "127.0.0.1:9100", "49983"),
            ("/files", "127.0.0.1:9100", "49983"),
            ("/sandboxesx", "127.0.0.1:9100", "49983"),
        ] {
            let target = target(path, &headers(host, port)).unwrap().unwrap();
            assert_eq!(target.session.as_str(), "s1", "{path} {host} {port}");
        }
    }
}
