//! The HTTP port: connections, timeouts, routing and middleware.

mod body_errors;
mod catch_panic;
mod config;
mod connection;
mod connections;
mod dispatch;
mod drain_body;
mod fair_body;
mod listener;
mod mcp;
mod openapi;
mod oversize;
mod probes;
mod request_span;
mod router;
mod server;
mod timeouts;

pub use config::ServerConfig;
#[cfg(test)]
pub(crate) use connections::Connections;
pub(crate) use connections::{Registration, RequestInProgress, Standing};
pub(crate) use dispatch::Transport;
pub(crate) use drain_body::drain_body;
pub use server::{RunningServer, serve};
pub use timeouts::ConnectionTimeouts;
