//! The HTTP engine: judges every request by the host it names before it is forwarded.
//!
//! One engine serves requests to the explicit proxy, plain HTTP that the session sent to a server,
//! and HTTPS that was terminated here. Bodies are streamed, never buffered.

mod decision_log;
mod engine;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod headers;
mod idle_timer;
mod inject;
mod intercept;
mod origin;
mod relayed_body;
mod reply;
mod request_target;
mod tasks;
mod upgrade;
mod upstream_pool;

pub(crate) use engine::{serve_http, serve_http2};
pub(crate) use intercept::intercept;
pub(crate) use origin::Origin;

#[cfg(test)]
mod tests;
