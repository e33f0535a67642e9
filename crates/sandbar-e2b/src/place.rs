//! Which part of the surface a request is for.

use http::{HeaderName, Request, header, uri::Authority};
use sandbar_core::DomainName;

use crate::interpreter;

/// Names the sandbox, where the host name does not.
const SANDBOX: HeaderName = HeaderName::from_static("e2b-sandbox-id");
const PORT: HeaderName = HeaderName::from_static("e2b-sandbox-port");

/// Where E2B has its agent in a sandbox.
pub(crate) const ENVD_PORT: u16 = 49_983;

/// What the control API begins with. None of it is a path of the native API.
const CONTROL: [&str; 11] = [
    "/health",
    "/sandbar/sandboxes",
    "/sandboxes",
    "/secrets",
    "/snapshots",
    "/teams",
    "/templates",
    "/v2/sandboxes",
    "/v2/templates",
    "/v3/templates",
    "/volumes",
];

/// A part of the surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The REST API of sandboxes.
    Control,
    /// The agent of a sandbox.
    Envd {
        /// As it was sent: it may be no id at all.
        sandbox: String,
    },
    /// The code interpreter of a sandbox.
    Interpreter {
        /// As it was sent.
        sandbox: String,
    },
}

impl Place {
    /// What a request is for; `None` is not ours. The host name decides where it names a port of a sandbox: a page that a
    /// sandbox serves cannot reach another one by headers.
    pub(crate) fn of<B>(request: &Request<B>, domain: &DomainName) -> Option<Self> {
        let field = |name: &HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
        if let Some((port, sandbox)) = host_name(request).as_deref().and_then(|host| port_and_sandbox(host, domain)) {
            return Self::in_sandbox(port, sandbox);
        }
        if let Some(sandbox) = field(&SANDBOX) {
            return Self::in_sandbox(field(&PORT).map_or(Some(ENVD_PORT), |port| port.parse().ok())?, sandbox);
        }
        let path = request.uri().path();
        let is_below =
            |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        CONTROL.iter().any(|prefix| is_below(prefix)).then_some(Self::Control)
    }

    fn in_sandbox(port: u16, sandbox: &str) -> Option<Self> {
        let sandbox = sandbox.to_owned();
        match port {
            ENVD_PORT => Some(Self::Envd { sandbox }),
            interpreter::PORT => Some(Self::Interpreter { sandbox }),
            _ => None,
        }
    }
}

/// The name a request was sent to, in lower case.
fn host_name<B>(request: &Request<B>) -> Option<String> {
    let field = || Authority::try_from(request.headers().get(header::HOST)?.as_bytes()).ok();
    let authority = request.uri().authority().cloned().or_else(field)?;
    let host = authority.host();
    Some(host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase())
}

/// Takes `<port>-<sandbox>.<domain>` apart.
fn port_and_sandbox<'a>(host: &'a str, domain: &DomainName) -> Option<(u16, &'a str)> {
    let (port, sandbox) = host.strip_suffix(domain.as_str())?.strip_suffix('.')?.split_once('-')?;
    Some((port.parse().ok()?, sandbox))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_or_the_header_says_what_it_is_for() {
        let place = |path: &str, headers: &[(&str, &str)]| {
            let mut request = Request::get(path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            Place::of(&request.body(()).unwrap(), &"boxes.example".parse().unwrap())
        };
        let envd = Some(Place::Envd { sandbox: "s1".into() });
        assert_eq!(place("/health", &[("e2b-sandbox-id", "s1"), ("e2b-sandbox-port", "49983")]), envd);
        assert_eq!(place("/health", &[("e2b-sandbox-id", "s1")]), envd);
        let interpreter = Some(Place::Interpreter { sandbox: "s1".into() });
        assert_eq!(place("/execute", &[("e2b-sandbox-id", "s1"), ("e2b-sandbox-port", "49999")]), interpreter);
        assert_eq!(place("/execute", &[("host", "49999-S1.boxes.example:9100")]), interpreter);
        assert_eq!(place("/health", &[("host", "49983-s1.boxes.example")]), envd);
        // Another port of a sandbox is not of this surface, whatever the headers say.
        assert_eq!(place("/", &[("host", "3000-s1.boxes.example"), ("e2b-sandbox-id", "s2")]), None);
        assert_eq!(place("/v2/sandboxes", &[]), Some(Place::Control));
        assert_eq!(place("/sandboxes/s1/connect", &[]), Some(Place::Control));
        assert_eq!(place("/sandboxesx", &[]), None);
        assert_eq!(place("/healthz", &[]), None);
    }
}
