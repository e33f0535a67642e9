//! Ingress: ports of sessions, reached by host name on the API's port.
//!
//! A request for `<port>-<session>.<domain>`, or one that names session and port in its headers, is
//! forwarded to the server that listens there in the box. Bodies are streamed in both directions.
//! Requests in E2B's headers, and requests to a sandbox that an E2B client created, get errors in
//! E2B's form.
//!
//! Invariant: a request goes either to the API or into a session, and a host name that names a
//! session decides alone. So a page served by a session can call neither the API nor another
//! session as its own origin. Credentials of this host never reach a session.

mod cookie;
mod error_response;
mod forward;
#[cfg(fuzzing)]
mod fuzzing;
mod handler;
mod headers;
mod port_auth;
mod target;
mod tunnel;
mod upstream_tls;

#[cfg(fuzzing)]
pub use fuzzing::ingress_request;
pub(crate) use handler::Ingress;
