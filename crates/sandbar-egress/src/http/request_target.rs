//! Determines the host that a request is for.

use http::{HeaderMap, Uri, header::HOST, request::Parts, uri::Scheme};

use super::{Origin, reply::Reply};
use crate::sniff::HostPort;

/// Host and port of a request, and the `Host` value to forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestTarget {
    pub(super) host: HostPort,
    /// Value for `Host`. It has a port only if the client wrote one, because clients may sign it.
    pub(super) authority: String,
}

/// Returns the one host that a request names. Ambiguous requests are refused: the gateway and the
/// server must not come to different conclusions.
pub(super) fn request_target(origin: &Origin, head: &Parts) -> Result<RequestTarget, Reply> {
    let host = only_host(&head.headers)?;
    let requested = match origin {
        Origin::Explicit => read(proxied(&head.uri)?, 80)?,
        Origin::Transparent { to } => named(&head.uri, host, to.port())?,
        Origin::Intercepted { port, .. } => named(&head.uri, host, *port)?,
    };
    match (origin, &requested.host) {
        (Origin::Transparent { to }, target) if target.port() != to.port() => Err(Reply::Bad(
            "the request names a port other than that of its connection",
        )),
        (Origin::Transparent { to }, HostPort::Address(address))
            if address.ip() != to.ip().to_canonical() =>
        {
            Err(Reply::Bad(
                "the request names an address other than that of its connection",
            ))
        }
        (Origin::Explicit | Origin::Transparent { .. }, _) => Ok(requested),
        (Origin::Intercepted { name, port }, HostPort::Name(host, host_port))
            if host == name && host_port == port =>
        {
            Ok(requested)
        }
        (Origin::Intercepted { .. }, other) => Err(Reply::Misdirected {
            host: other.clone(),
        }),
    }
}

fn only_host(headers: &HeaderMap) -> Result<Option<&str>, Reply> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => Ok(None),
        (Some(host), None) => host
            .to_str()
            .map(Some)
            .map_err(|_| Reply::Bad("the host is malformed")),
        (Some(_), Some(_)) => Err(Reply::Bad("the request has more than one `Host` header")),
    }
}

/// Returns the host of a request to the proxy. RFC 9112: the URI overrides `Host`.
fn proxied(uri: &Uri) -> Result<&str, Reply> {
    match (uri.scheme(), uri.authority()) {
        (Some(scheme), Some(authority)) if *scheme == Scheme::HTTP => Ok(authority.as_str()),
        (Some(_), Some(_)) => Err(Reply::Bad(
            "the proxy forwards only `http://` URIs; use `CONNECT` for others",
        )),
        _ => Err(Reply::Bad("a request to the proxy needs an absolute URI")),
    }
}

/// Returns the host of a request to a server. A host in the URI, as in HTTP/2, must equal `Host`.
fn named(uri: &Uri, host: Option<&str>, port: u16) -> Result<RequestTarget, Reply> {
    match (uri.authority(), host) {
        (None, None) => Err(Reply::Bad("the request names no host")),
        (Some(authority), None) => read(authority.as_str(), port),
        (None, Some(host)) => read(host, port),
        (Some(authority), Some(host)) => {
            let requested = read(authority.as_str(), port)?;
            if read(host, port)?.host == requested.host {
                Ok(requested)
            } else {
                Err(Reply::Bad("the request names two different hosts"))
            }
        }
    }
}

fn read(text: &str, default_port: u16) -> Result<RequestTarget, Reply> {
    let target =
        HostPort::parse(text, Some(default_port)).ok_or(Reply::Bad("the host is malformed"))?;
    let has_port = HostPort::parse(text, None).is_some();
    let authority = match &target {
        with_port if has_port => with_port.to_string(),
        HostPort::Name(name, _) => name.to_string(),
        HostPort::Address(address) if address.is_ipv6() => format!("[{}]", address.ip()),
        HostPort::Address(address) => address.ip().to_string(),
    };
    Ok(RequestTarget {
        host: target,
        authority,
    })
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
        request_target(origin, &head).map(|found| format!("{} {}", found.host, found.authority))
    }

    #[test]
    fn proxy_request_goes_to_the_host_of_the_uri() {
        let of = |uri, hosts| of(&Origin::Explicit, uri, hosts);
        assert_eq!(
            of("http://A.example/x", &["b.example"]).unwrap(),
            "a.example:80 a.example"
        );
        assert_eq!(
            of("http://a.example:8080/", &[]).unwrap(),
            "a.example:8080 a.example:8080"
        );
        assert_eq!(of("http://[::1]/", &[]).unwrap(), "[::1]:80 [::1]");
        for (uri, hosts) in [
            ("/x", ["a.example"].as_slice()),
            ("https://a.example/", &[]),
            ("http://user:word@a.example/", &[]),
            ("http://a.example/", &["a.example", "b.example"]),
            ("http://127.1/", &[]),
        ] {
            assert!(
                matches!(of(uri, hosts), Err(Reply::Bad(_))),
                "{uri} {hosts:?}"
            );
        }
    }

    #[test]
    fn plain_request_goes_to_its_host_at_the_same_port() {
        let origin = Origin::Transparent {
            to: "203.0.113.7:8080".parse().unwrap(),
        };
        let of = |uri, hosts| of(&origin, uri, hosts);
        assert_eq!(of("/", &["a.example"]).unwrap(), "a.example:8080 a.example");
        assert_eq!(
            of("/", &["a.example:8080"]).unwrap(),
            "a.example:8080 a.example:8080"
        );
        assert_eq!(
            of("/", &["203.0.113.7:8080"]).unwrap(),
            "203.0.113.7:8080 203.0.113.7:8080"
        );
        assert_eq!(
            of("http://a.example/", &["A.example:8080"]).unwrap(),
            "a.example:8080 a.example"
        );
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
            assert!(
                matches!(of(uri, hosts), Err(Reply::Bad(_))),
                "{uri} {hosts:?}"
            );
        }
    }

    #[test]
    fn intercepted_request_must_name_the_host_of_the_tls() {
        let origin = Origin::Intercepted {
            name: "a.example".parse().unwrap(),
            port: 443,
        };
        let of = |uri, hosts: &[&str]| of(&origin, uri, hosts);
        assert_eq!(of("/", &["A.EXAMPLE"]).unwrap(), "a.example:443 a.example");
        assert_eq!(
            of("https://a.example/", &[]).unwrap(),
            "a.example:443 a.example"
        );
        for host in [
            "b.example",
            "a.example:444",
            "203.0.113.7",
            "a.example.b.example",
        ] {
            assert!(
                matches!(of("/", &[host]), Err(Reply::Misdirected { .. })),
                "{host}"
            );
        }
        assert!(matches!(
            of("https://b.example/", &["a.example"]),
            Err(Reply::Bad(_))
        ));
    }
}
