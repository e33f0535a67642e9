//! Where the ports of sandboxes are reached.

use sandbar_core::SessionId;

/// The host as clients see it.
#[derive(Clone, Debug)]
pub struct PortNames {
    scheme: String,
    /// Name and port of the API.
    authority: String,
    /// Below which name every port of a sandbox has its own; `None` when that is not known.
    domain: Option<String>,
}

/// How a port is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortAddress {
    pub(crate) url: String,
    /// To be sent with every request, beside the traffic token.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl PortNames {
    /// Of the host at `url`. The domain its ports are named below is known for this machine only.
    pub fn of_host(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let name = name_of(authority);
        let near = name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let domain = near.then(|| "localhost".to_owned());
        Self { scheme: scheme.into(), authority: authority.into(), domain }
    }

    /// Of the host we are part of.
    #[must_use]
    pub fn with_domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    pub(crate) fn address(&self, id: &SessionId, port: u16) -> PortAddress {
        let Self { scheme, authority, domain } = self;
        match domain {
            Some(domain) if is_label(&format!("{port}-{id}")) => {
                let api_port = match authority.rsplit_once(':') {
                    Some((_, digits)) if digits.parse::<u16>().is_ok() => format!(":{digits}"),
                    _ => String::new(),
                };
                PortAddress { url: format!("{scheme}://{port}-{id}.{domain}{api_port}/"), headers: Vec::new() }
            }
            // An id that is no part of a host name, or a domain we do not know: the host takes headers, too.
            _ => PortAddress {
                url: format!("{scheme}://{authority}/"),
                headers: vec![("x-sandbar-session", id.to_string()), ("x-sandbar-port", port.to_string())],
            },
        }
    }
}

/// The name in `name:port`, also when it is an address in brackets.
fn name_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Whether this can be one part of a host name.
fn is_label(text: &str) -> bool {
    text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_name_where_one_can_be_had_and_headers_elsewhere() {
        let id = SessionId::new("box").unwrap();
        let here = PortNames::of_host("http://127.0.0.1:9100");
        assert_eq!(here.address(&id, 3000).url, "http://3000-box.localhost:9100/");
        let here = PortNames::of_host("http://[::1]:9100/");
        assert_eq!(here.address(&id, 3000).url, "http://3000-box.localhost:9100/");
        let named = PortNames::of_host("https://api.example:443").with_domain("boxes.example");
        assert_eq!(named.address(&id, 80).url, "https://80-box.boxes.example:443/");
        let headers = vec![("x-sandbar-session", "Box.1".to_owned()), ("x-sandbar-port", "80".to_owned())];
        let odd = here.address(&SessionId::new("Box.1").unwrap(), 80);
        assert_eq!(odd, PortAddress { url: "http://[::1]:9100/".into(), headers: headers.clone() });
        let far = PortNames::of_host("http://10.0.0.9:9100").address(&SessionId::new("Box.1").unwrap(), 80);
        assert_eq!(far, PortAddress { url: "http://10.0.0.9:9100/".into(), headers });
    }
}
