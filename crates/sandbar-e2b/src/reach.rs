//! The names below which whoever asks reaches the ports of sandboxes.

use std::net::IpAddr;

use http::{Request, header, uri::Authority};
use sandbar_core::DomainName;

/// What SDKs put behind `PORT-SANDBOX.` to reach a port; `None` is what they were told by somebody else.
///
/// Every request of the control API carries it among its extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach(pub(crate) Option<String>);

impl Reach {
    /// For one who reached this host as this request did. `domain` is that of the host's ports.
    pub(crate) fn of<B>(request: &Request<B>, domain: &DomainName) -> Self {
        let field = || Authority::try_from(request.headers().get(header::HOST)?.as_bytes()).ok();
        let authority = request.uri().authority().cloned().or_else(field);
        Self(authority.filter(|authority| leads_to_ports(authority.host(), domain)).map(|authority| {
            let port = authority.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
            format!("{domain}{port}")
        }))
    }
}

/// Whether names below the domain lead where this one does.
fn leads_to_ports(host: &str, domain: &DomainName) -> bool {
    let host = host.to_ascii_lowercase();
    let below = host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    // Those below `localhost` lead to the machine that asks.
    let is_near = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    below || (is_near && *domain == DomainName::localhost())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(host: &str, domain: &str) -> Option<String> {
        let request = Request::get("/v2/sandboxes").header("host", host).body(()).unwrap();
        Reach::of(&request, &domain.parse().unwrap()).0
    }

    #[test]
    fn ports_are_below_the_domain_of_the_host_at_the_port_it_was_asked_at() {
        assert_eq!(reach("api.sbx.test:9100", "sbx.test").as_deref(), Some("sbx.test:9100"));
        assert_eq!(reach("API.sbx.test", "sbx.test").as_deref(), Some("sbx.test"));
        for host in ["127.0.0.1:9100", "[::1]:9100", "localhost:9100"] {
            assert_eq!(reach(host, "localhost").as_deref(), Some("localhost:9100"), "{host}");
        }
    }

    #[test]
    fn nothing_is_told_to_one_whom_it_would_lead_astray() {
        for (host, domain) in [
            ("192.0.2.7:9100", "localhost"),
            ("host.example:9100", "localhost"),
            ("127.0.0.1:9100", "sbx.test"),
            ("evilsbx.test", "sbx.test"),
            ("%", "localhost"),
        ] {
            assert_eq!(reach(host, domain), None, "{host}");
        }
    }
}
