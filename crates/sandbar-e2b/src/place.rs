//! Which part of the surface a request is for.

use http::{HeaderName, Request};

use crate::templates::UPLOADS;

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

/// Whether a request came over TLS. Who serves the connection puts it among the extensions of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secure(pub bool);

/// A part of the surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The REST API of sandboxes.
    Control,
    /// Where the files of templates are sent to. The address is signed.
    Upload,
    /// The agent of a sandbox.
    Envd {
        /// As it was sent: it may be no id at all.
        sandbox: String,
    },
}

impl Place {
    /// What a request is for; `None` is not ours.
    pub(crate) fn of<B>(request: &Request<B>) -> Option<Self> {
        let field = |name: &HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
        if let Some(sandbox) = field(&SANDBOX) {
            let port = field(&PORT).map_or(Some(ENVD_PORT), |port| port.parse().ok());
            return (port == Some(ENVD_PORT)).then(|| Self::Envd { sandbox: sandbox.to_owned() });
        }
        let path = request.uri().path();
        let is_below =
            |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if is_below(UPLOADS) {
            return Some(Self::Upload);
        }
        CONTROL.iter().any(|prefix| is_below(prefix)).then_some(Self::Control)
    }
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
            Place::of(&request.body(()).unwrap())
        };
        let envd = Some(Place::Envd { sandbox: "s1".into() });
        assert_eq!(place("/health", &[("e2b-sandbox-id", "s1"), ("e2b-sandbox-port", "49983")]), envd);
        assert_eq!(place("/health", &[("e2b-sandbox-id", "s1")]), envd);
        assert_eq!(place("/v2/sandboxes", &[]), Some(Place::Control));
        assert_eq!(place("/sandboxes/s1/connect", &[]), Some(Place::Control));
        assert_eq!(place("/templates-files/ab", &[]), Some(Place::Upload));
        assert_eq!(place("/sandboxesx", &[]), None);
        assert_eq!(place("/healthz", &[]), None);
    }
}
