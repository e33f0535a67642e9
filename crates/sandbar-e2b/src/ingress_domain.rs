//! The domain below which a client reaches the ports of sandboxes.

use std::net::IpAddr;

use http::{Request, header, uri::Authority};
use sandbar_core::DomainName;

/// Domain and port that SDKs append to `PORT-SANDBOX.`. `None` if the client reached this host by a
/// name from which the ingress domain cannot be derived.
///
/// Every request to the control API carries it in its extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IngressDomain(pub(crate) Option<String>);

impl IngressDomain {
    /// Derives the domain for the client of a request. `domain` is the ingress domain of the host.
    pub(crate) fn of<B>(request: &Request<B>, domain: &DomainName) -> Self {
        let field = || Authority::try_from(request.headers().get(header::HOST)?.as_bytes()).ok();
        let authority = request.uri().authority().cloned().or_else(field);
        Self(
            authority
                .filter(|authority| resolves_like(authority.host(), domain))
                .map(|authority| {
                    let port = authority
                        .port_u16()
                        .map(|port| format!(":{port}"))
                        .unwrap_or_default();
                    format!("{domain}{port}")
                }),
        )
    }
}

/// Returns whether names below `domain` reach the same address as `host` for the client.
fn resolves_like(host: &str, domain: &DomainName) -> bool {
    let host = host.to_ascii_lowercase();
    let below = host
        .strip_suffix(domain.as_str())
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    // Names below `localhost` resolve to the client's own machine.
    let is_loopback = host
        .trim_matches(['[', ']'])
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_loopback());
    below || (is_loopback && *domain == DomainName::localhost())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(host: &str, domain: &str) -> Option<String> {
        let request = Request::get("/v2/sandboxes")
            .header("host", host)
            .body(())
            .unwrap();
        IngressDomain::of(&request, &domain.parse().unwrap()).0
    }

    #[test]
    fn domain_has_the_port_of_the_request() {
        assert_eq!(
            derived("api.sbx.test:9100", "sbx.test").as_deref(),
            Some("sbx.test:9100")
        );
        assert_eq!(
            derived("API.sbx.test", "sbx.test").as_deref(),
            Some("sbx.test")
        );
        for host in ["127.0.0.1:9100", "[::1]:9100", "localhost:9100"] {
            assert_eq!(
                derived(host, "localhost").as_deref(),
                Some("localhost:9100"),
                "{host}"
            );
        }
    }

    #[test]
    fn no_domain_if_it_would_not_reach_this_host() {
        for (host, domain) in [
            ("192.0.2.7:9100", "localhost"),
            ("host.example:9100", "localhost"),
            ("127.0.0.1:9100", "sbx.test"),
            ("evilsbx.test", "sbx.test"),
            ("%", "localhost"),
        ] {
            assert_eq!(derived(host, domain), None, "{host}");
        }
    }
}
