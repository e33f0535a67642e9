//! Which part of the surface a request is for.

use http::{HeaderName, Method, Request};

use crate::{
    cors,
    envd::{HEALTH, files},
    interpreter,
    templates::UPLOADS,
};

/// Names the sandbox, where the host name does not.
pub const SANDBOX: HeaderName = HeaderName::from_static("e2b-sandbox-id");
/// Names the port of it; the agent's when absent.
pub const PORT: HeaderName = HeaderName::from_static("e2b-sandbox-port");

/// Where E2B has its agent in a sandbox.
pub const ENVD_PORT: u16 = 49_983;

/// What the control API begins with, beside [`HEALTH`]. None of it is a path of the native API, nor of the agent.
const CONTROL: [&str; 10] = [
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

/// Services of the agent. None of their paths is one of the native API.
const AGENT: [&str; 2] = ["/filesystem.Filesystem", "/process.Process"];

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
    Envd { sandbox: String, named_by: NamedBy },
    /// Contents of a sandbox that is known only by the token the request was signed with.
    Files,
    /// The agent of a sandbox that is known only by its access token.
    Agent,
    /// The same for its health, which is the control API's where no such token is shown.
    Health,
    /// The code interpreter of a sandbox.
    Interpreter { sandbox: String, named_by: NamedBy },
}

/// How sure it is that whoever named a sandbox meant this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The request was sent to a name or an address that is this host's own.
    OwnName,
    /// It was sent to a name anybody may have given this machine: a page there could be anybody's. It has to show a token.
    AnyName,
}

impl Place {
    /// What a request for a port of a sandbox is for; `None` is what listens there in the sandbox.
    pub fn of_port(sandbox: &str, port: u16, named_by: NamedBy) -> Option<Self> {
        let sandbox = sandbox.to_owned();
        match port {
            ENVD_PORT => Some(Self::Envd { sandbox, named_by }),
            interpreter::PORT => Some(Self::Interpreter { sandbox, named_by }),
            _ => None,
        }
    }

    /// What a request that names no sandbox is for; `None` is not ours. A browser that asks whether it may name one is answered
    /// the same by every part.
    pub fn of_path<B>(request: &Request<B>) -> Option<Self> {
        let path = request.uri().path();
        if is_below(path, UPLOADS) {
            return Some(Self::Upload);
        }
        if path == files::PATH {
            return Some(Self::Files);
        }
        if path == HEALTH {
            return Some(Self::Health);
        }
        if request.method() == Method::POST && AGENT.iter().any(|service| is_below(path, service)) {
            return Some(Self::Agent);
        }
        if cors::asks_to_send(request.method(), request.headers(), &SANDBOX) {
            return Some(Self::Control);
        }
        Self::is_control_only(path).then_some(Self::Control)
    }

    /// Whether a path is the control API's, and no agent has it.
    pub fn is_control_only(path: &str) -> bool {
        CONTROL.iter().any(|prefix| is_below(path, prefix))
    }
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_control_api_is_known_by_its_beginning() {
        let place = |path: &str| Place::of_path(&Request::get(path).body(()).unwrap());
        assert_eq!(place("/v2/sandboxes"), Some(Place::Control));
        assert_eq!(place("/sandboxes/s1/connect?a=b"), Some(Place::Control));
        assert_eq!(place("/templates-files/ab"), Some(Place::Upload));
        assert_eq!(place("/files?path=a"), Some(Place::Files));
        assert_eq!(place("/health"), Some(Place::Health));
        let call = |path: &str| Place::of_path(&Request::post(path).body(()).unwrap());
        assert_eq!(call("/process.Process/Start"), Some(Place::Agent));
        assert_eq!(call("/process.Processes/Start"), None);
        assert_eq!(place("/sandboxesx"), None);
        let asks = |header: &str| {
            let asks = Request::options("/process.Process/Start").header("access-control-request-method", "POST");
            Place::of_path(&asks.header("access-control-request-headers", header).body(()).unwrap())
        };
        assert_eq!(asks("connect-protocol-version,e2b-sandbox-id"), Some(Place::Control));
        assert_eq!(asks("content-type"), None);
        assert_eq!(place("/healthz"), None);
    }

    #[test]
    fn two_ports_are_ours_and_the_others_are_the_sandboxes_own() {
        let envd = Place::Envd { sandbox: "s1".into(), named_by: NamedBy::OwnName };
        assert_eq!(Place::of_port("s1", 49_983, NamedBy::OwnName), Some(envd));
        let interpreter = Place::Interpreter { sandbox: "s1".into(), named_by: NamedBy::AnyName };
        assert_eq!(Place::of_port("s1", 49_999, NamedBy::AnyName), Some(interpreter));
        assert_eq!(Place::of_port("s1", 3000, NamedBy::OwnName), None);
    }
}
