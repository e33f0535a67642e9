//! Dispatch: which part of the API a request is for.

use std::{collections::BTreeSet, sync::LazyLock};

use http::{Method, Request};

use crate::{
    auth::NamedBy,
    control,
    envd::files,
    protocol::{ENVD_PORT, HEALTH, SANDBOX},
    rest::cors,
    templates::{self, UPLOADS},
};

/// Path prefixes of the REST API except [`HEALTH`], from its route tables. None of them is a prefix
/// of the native API or of envd.
static CONTROL_PREFIXES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    control::routes()
        .prefixes()
        .chain(templates::routes().prefixes())
        .collect()
});

/// Path prefixes of the services of envd. None of them is one of the native API.
const ENVD_SERVICES: [&str; 2] = ["/filesystem.Filesystem", "/process.Process"];

/// A part of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// The REST API.
    Control,
    /// Upload of the files of a template, to a signed URL.
    Upload,
    /// envd of a sandbox.
    Envd { sandbox: String, named_by: NamedBy },
    /// `/files` of a sandbox that is known only by the token the URL was signed with.
    Files,
    /// envd of a sandbox that is known only by its access token.
    EnvdByToken,
    /// `/health`: of such a sandbox if the request has an access token, else of the REST API.
    Health,
    /// The code interpreter of a sandbox.
    Interpreter { sandbox: String, named_by: NamedBy },
}

impl Route {
    /// Returns the route of a request to a port of a sandbox; `None` if it goes to the process that
    /// listens there.
    pub fn of_port(sandbox: &str, port: u16, named_by: NamedBy) -> Option<Self> {
        let sandbox = sandbox.to_owned();
        match port {
            ENVD_PORT => Some(Self::Envd { sandbox, named_by }),
            sandbar_interpreter::PORT => Some(Self::Interpreter { sandbox, named_by }),
            _ => None,
        }
    }

    /// Returns the route of a request that names no sandbox; `None` if it is not for this API. A
    /// preflight for a request that will name one may go to any part, as all answer it alike.
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
        let is_envd = || ENVD_SERVICES.iter().any(|service| is_below(path, service));
        if request.method() == Method::POST && is_envd() {
            return Some(Self::EnvdByToken);
        }
        if cors::preflight_requests(request.method(), request.headers(), &SANDBOX) {
            return Some(Self::Control);
        }
        Self::is_control_path(path).then_some(Self::Control)
    }

    /// Returns whether a path belongs to the REST API and not to envd.
    pub fn is_control_path(path: &str) -> bool {
        CONTROL_PREFIXES.iter().any(|prefix| is_below(path, prefix))
    }
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_without_sandbox_is_routed_by_its_path() {
        let get = |path: &str| Route::of_path(&Request::get(path).body(()).unwrap());
        assert_eq!(get("/v2/sandboxes"), Some(Route::Control));
        assert_eq!(get("/sandboxes/s1/connect?a=b"), Some(Route::Control));
        assert_eq!(get("/templates-files/ab"), Some(Route::Upload));
        assert_eq!(get("/files?path=a"), Some(Route::Files));
        assert_eq!(get("/health"), Some(Route::Health));
        assert_eq!(get("/healthz"), None);
        assert_eq!(get("/sandboxesx"), None);
        let post = |path: &str| Route::of_path(&Request::post(path).body(()).unwrap());
        assert_eq!(post("/process.Process/Start"), Some(Route::EnvdByToken));
        assert_eq!(post("/process.Processes/Start"), None);
    }

    #[test]
    fn preflight_is_routed_by_the_headers_it_asks_for() {
        let preflight = |headers: &str| {
            let request = Request::options("/process.Process/Start")
                .header("access-control-request-method", "POST")
                .header("access-control-request-headers", headers);
            Route::of_path(&request.body(()).unwrap())
        };
        assert_eq!(
            preflight("connect-protocol-version,e2b-sandbox-id"),
            Some(Route::Control)
        );
        assert_eq!(preflight("content-type"), None);
    }

    #[test]
    fn every_prefix_of_the_rest_api_comes_from_its_routes() {
        for path in [
            "/sandbar/sandboxes/s1/turns",
            "/secrets",
            "/snapshots",
            "/teams/t1",
            "/templates/t1/builds/b1/status",
            "/v2/templates",
            "/v3/templates",
            "/volumes/v1/x",
        ] {
            assert!(Route::is_control_path(path), "{path}");
        }
        assert!(!Route::is_control_path("/health"));
        assert!(!Route::is_control_path("/"));
    }

    #[test]
    fn only_the_ports_of_envd_and_interpreter_are_routed() {
        let envd = Route::Envd {
            sandbox: "s1".into(),
            named_by: NamedBy::OwnName,
        };
        assert_eq!(Route::of_port("s1", 49_983, NamedBy::OwnName), Some(envd));
        let interpreter = Route::Interpreter {
            sandbox: "s1".into(),
            named_by: NamedBy::ForeignName,
        };
        assert_eq!(
            Route::of_port("s1", 49_999, NamedBy::ForeignName),
            Some(interpreter)
        );
        assert_eq!(Route::of_port("s1", 3000, NamedBy::OwnName), None);
    }
}
