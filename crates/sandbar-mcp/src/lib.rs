//! The Model Context Protocol: sandboxes and their tools for any client that speaks it.
//!
//! [`McpServer`] answers requests through a [`Client`](sandbar_client::Client) and has no other way to the host, so
//! whoever calls may do here what their token lets them do there. [`serve_stdio`] puts it on a pair of streams,
//! [`HttpEndpoint`] on a path of a web server. The protocol itself is the crate `rmcp`'s, which is used here and nowhere
//! else; `tools` knows what is offered, `call_id` which calls are the same.
//!
//! Invariant: no state hangs on a session of the protocol. What a tool fails at is an answer a model can act on; an error
//! of the protocol is a fault of the client's program. A request whose sender is gone, or has cancelled it, is ended.

mod call_id;
mod http;
mod ports;
mod progress;
mod sandboxes;
mod server;
mod stdio;
mod tools;
mod version;

pub use self::{
    http::HttpEndpoint,
    ports::PortNames,
    sandboxes::DefaultSandbox,
    server::McpServer,
    stdio::{Ended, serve_stdio},
};
