//! Header names and constants of the E2B API.

use http::HeaderName;

/// Names the sandbox of a request if the host name does not.
pub const SANDBOX: HeaderName = HeaderName::from_static("e2b-sandbox-id");
/// Names the port of the sandbox; envd's if absent.
pub const PORT: HeaderName = HeaderName::from_static("e2b-sandbox-port");
/// Version of envd whose features this host implements; SDKs enable features by it.
pub(crate) const ENVD_VERSION: &str = "0.6.4";
/// Port of envd in a sandbox of E2B.
pub const ENVD_PORT: u16 = 49_983;
/// Path that reports whether the API, or the sandbox of a request, is running. Needs no token.
pub(crate) const HEALTH: &str = "/health";
/// Carries the token for the ports of a sandbox that is not publicly reachable.
pub const TRAFFIC_TOKEN: HeaderName = HeaderName::from_static("e2b-traffic-access-token");
/// Carries the envd access token of a sandbox.
pub(crate) const ACCESS_TOKEN: HeaderName = HeaderName::from_static("x-access-token");
/// Carries the API key.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Names the start of the next page in a listing.
pub(crate) const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");

/// Flag for a request that arrived over TLS. The connection handler inserts it into the request's
/// extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secure(pub bool);
