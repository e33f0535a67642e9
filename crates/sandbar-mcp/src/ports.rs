//! URLs of ports of sandboxes.

use sandbar_core::SessionId;

/// URL scheme, authority and ingress domain of the host, as clients see them.
#[derive(Clone, Debug)]
pub struct PortNames {
    scheme: String,
    /// Name and port of the API.
    authority: String,
    /// Ingress domain; `None` when it is not known.
    domain: Option<String>,
}

/// URL and headers of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortAddress {
    pub(crate) url: String,
    /// Sent with every request, in addition to the traffic token.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl PortNames {
    /// Returns the names for the host at `url`. The ingress domain is derived for loopback hosts
    /// only.
    pub fn of_host(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let name = name_of(authority);
        let is_loopback = name == "localhost"
            || name
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        let domain = is_loopback.then(|| "localhost".to_owned());
        Self {
            scheme: scheme.into(),
            authority: authority.into(),
            domain,
        }
    }

    /// Sets the ingress domain, for a server that is part of the host.
    #[must_use]
    pub fn with_domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    pub(crate) fn address(&self, id: &SessionId, port: u16) -> PortAddress {
        let Self {
            scheme,
            authority,
            domain,
        } = self;
        match domain {
            Some(domain) if is_label(&format!("{port}-{id}")) => {
                let api_port = match authority.rsplit_once(':') {
                    Some((_, digits)) if digits.parse::<u16>().is_ok() => format!(":{digits}"),
                    _ => String::new(),
                };
                PortAddress {
                    url: format!("{scheme}://{port}-{id}.{domain}{api_port}/"),
                    headers: Vec::new(),
                }
            }
            // The id is no valid DNS label, or the domain is not known: the session goes in
            // headers.
            _ => PortAddress {
                url: format!("{scheme}://{authority}/"),
                headers: vec![
                    ("x-sandbar-session", id.to_string()),
                    ("x-sandbar-port", port.to_string()),
                ],
            },
        }
    }
}

/// Returns the name in `name:port`, without the brackets of an IPv6 address.
fn name_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Reports whether a text is a valid DNS label.
fn is_label(text: &str) -> bool {
    text.len() <= 63
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_addressed_by_name_or_else_by_headers() {
        let id = SessionId::new("box").unwrap();
        let here = PortNames::of_host("http://127.0.0.1:9100");
        assert_eq!(
            here.address(&id, 3000).url,
            "http://3000-box.localhost:9100/"
        );
        let here = PortNames::of_host("http://[::1]:9100/");
        assert_eq!(
            here.address(&id, 3000).url,
            "http://3000-box.localhost:9100/"
        );
        let named = PortNames::of_host("https://api.example:443").with_domain("boxes.example");
        assert_eq!(
            named.address(&id, 80).url,
            "https://80-box.boxes.example:443/"
        );
        let headers = vec![
            ("x-sandbar-session", "Box.1".to_owned()),
            ("x-sandbar-port", "80".to_owned()),
        ];
        let odd = here.address(&SessionId::new("Box.1").unwrap(), 80);
        assert_eq!(
            odd,
            PortAddress {
                url: "http://[::1]:9100/".into(),
                headers: headers.clone()
            }
        );
        let far = PortNames::of_host("http://10.0.0.9:9100")
            .address(&SessionId::new("Box.1").unwrap(), 80);
        assert_eq!(
            far,
            PortAddress {
                url: "http://10.0.0.9:9100/".into(),
                headers
            }
        );
    }
}
