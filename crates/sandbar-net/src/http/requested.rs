//! Which host a request is for.

use http::{HeaderMap, Uri, header::HOST, request::Parts, uri::Scheme};

use super::{Origin, reply::Reply};
use crate::sniff::HostPort;

/// Where a request goes, and how it is said there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requested {
    pub(super) target: HostPort,
    /// For `Host`: with a port only if the client wrote one, since clients sign what they write.
    pub(super) authority: String,
}

/// Finds the one host a request names. Whatever could be read in two ways is refused.
pub(super) fn requested(origin: &Origin, head: &Parts) -> Result<Requested, Reply> {
    let host = only_host(&head.headers)?;
    let requested = match origin {
        Origin::Explicit => read(proxied(&head.uri)?, 80)?,
        Origin::Transparent { to } => named(&head.uri, host, to.port())?,
        Origin::Intercepted { port, .. } => named(&head.uri, host, *port)?,
    };
    match (origin, &requested.target) {
        (Origin::Transparent { to }, target) if target.port() != to.port() => {
            Err(Reply::Bad("the request names another port than its connection"))
        }
        (Origin::Transparent { to }, HostPort::Address(address)) if address.ip() != to.ip().to_canonical() => {
            Err(Reply::Bad("the request names another address than its connection"))
        }
        (Origin::Explicit | Origin::Transparent { .. }, _) => Ok(requested),
        (Origin::Intercepted { name, port }, HostPort::Name(host, host_port)) if host == name && host_port == port => {
            Ok(requested)
        }
        (Origin::Intercepted { .. }, other) => Err(Reply::Misdirected { host: other.clone() }),
    }
}

fn only_host(headers: &HeaderMap) -> Result<Option<&str>, Reply> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => Ok(None),
        (Some(host), None) => host.to_str().map(Some).map_err(|_| Reply::Bad("the host cannot be read")),
        (Some(_), Some(_)) => Err(Reply::Bad("the request has more than one `Host`")),
    }
}

/// The host in a request to the proxy: that in the URI, whatever `Host` says.
fn proxied(uri: &Uri) -> Result<&str, Reply> {
    match (uri.scheme(), uri.authority()) {
        (Some(scheme), Some(authority)) if *scheme == Scheme::HTTP => Ok(authority.as_str()),
        (Some(_), Some(_)) => Err(Reply::Bad("the proxy serves `http://` URIs; use `CONNECT` for others")),
        _ => Err(Reply::Bad("the proxy needs the whole URI")),
    }
}

/// The host in a request to a server. It may stand in the URI too, as it does in HTTP/2, but not as another.
fn named(uri: &Uri, host: Option<&str>, port: u16) -> Result<Requested, Reply> {
    match (uri.authority(), host) {
        (None, None) => Err(Reply::Bad("the request names no host")),
        (Some(authority), None) => read(authority.as_str(), port),
        (None, Some(host)) => read(host, port),
        (Some(authority), Some(host)) => {
            let requested = read(authority.as_str(), port)?;
            if read(host, port)?.target == requested.target {
                Ok(requested)
            } else {
                Err(Reply::Bad("the request names two hosts"))
            }
        }
    }
}

fn read(text: &str, default_port: u16) -> Result<Requested, Reply> {
    let target = HostPort::parse(text, Some(default_port)).ok_or(Reply::Bad("the host cannot be read"))?;
    let has_port = HostPort::parse(text, None).is_some();
    let authority = match &target {
        with_port if has_port => with_port.to_string(),
        HostPort::Name(name, _) => name.to_string(),
        HostPort::Address(address) if address.is_ipv6() => format!("[{}]", address.ip()),
        HostPort::Address(address) => address.ip().to_string(),
    };
    Ok(Requested { target, authority })
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn of(origin: &Origin, uri: &str, hosts: &[&str]) -> Result<String, Reply> {
        let mut request = Request::builder().uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        requested(origin, &head).map(|found| format!("{} {}", found.target, found.authority))
    }

    #[test]
    fn the_proxy_goes_where_the_uri_says() {
        let of = |uri, hosts| of(&Origin::Explicit, uri, hosts);
        assert_eq!(of("http://A.example/x", &["b.example"]).unwrap(), "a.example:80 a.example");
        assert_eq!(of("http://a.example:8080/", &[]).unwrap(), "a.example:8080 a.example:8080");
        assert_eq!(of("http://[::1]/", &[]).unwrap(), "[::1]:80 [::1]");
        for (uri, hosts) in [
            ("/x", ["a.example"].as_slice()),
            ("https://a.example/", &[]),
            ("http://user:word@a.example/", &[]),
            ("http://a.example/", &["a.example", "b.example"]),
            ("http://127.1/", &[]),
        ] {
            assert!(matches!(of(uri, hosts), Err(Reply::Bad(_))), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn plain_http_goes_where_its_only_host_says_at_its_own_port() {
        let origin = Origin::Transparent { to: "203.0.113.7:8080".parse().unwrap() };
        let of = |uri, hosts| of(&origin, uri, hosts);
        assert_eq!(of("/", &["a.example"]).unwrap(), "a.example:8080 a.example");
        assert_eq!(of("/", &["a.example:8080"]).unwrap(), "a.example:8080 a.example:8080");
        assert_eq!(of("/", &["203.0.113.7:8080"]).unwrap(), "203.0.113.7:8080 203.0.113.7:8080");
        assert_eq!(of("http://a.example/", &["A.example:8080"]).unwrap(), "a.example:8080 a.example");
        for (uri, hosts) in [
            ("/", [].as_slice()),
            ("/", &[""]),
            ("/", &["a.example", "a.example"]),
            ("/", &["a.example:80"]),
            ("/", &["203.0.113.8:8080"]),
            ("/", &["user@a.example"]),
            ("/", &["a.example, b.example"]),
            ("http://b.example/", &["a.example"]),
        ] {
            assert!(matches!(of(uri, hosts), Err(Reply::Bad(_))), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn opened_tls_serves_the_host_it_was_opened_for() {
        let origin = Origin::Intercepted { name: "a.example".parse().unwrap(), port: 443 };
        let of = |uri, hosts: &[&str]| of(&origin, uri, hosts);
        assert_eq!(of("/", &["A.EXAMPLE"]).unwrap(), "a.example:443 a.example");
        assert_eq!(of("https://a.example/", &[]).unwrap(), "a.example:443 a.example");
        for host in ["b.example", "a.example:444", "203.0.113.7", "a.example.b.example"] {
            assert!(matches!(of("/", &[host]), Err(Reply::Misdirected { .. })), "{host}");
        }
        assert!(matches!(of("https://b.example/", &["a.example"]), Err(Reply::Bad(_))));
    }
}
