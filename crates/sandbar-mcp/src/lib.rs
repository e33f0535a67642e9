//! Model Context Protocol (MCP): sandboxes and their tools for MCP clients.
//!
//! [`McpServer`] handles requests through a [`Client`](sandbar_client::Client) and has no other
//! access to the host, so a caller can do no more than its token allows. [`serve_stdio`] serves it
//! on a pair of streams, [`HttpEndpoint`] on an HTTP route. The protocol is implemented by the
//! crate `rmcp`, which no other crate uses; `tools` defines the tools, `call_id` identifies
//! repeated calls.
//!
//! Invariant: the server keeps no state for an MCP session. A failed tool call is a result that a
//! model can act on; a protocol error means a bug in the client program. A request ends when its
//! sender disconnects or cancels it.

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
