//! MCP on a path of a web server: streamable HTTP.
//!
//! Every POST stands for itself. The session id that a handshake hands out is the name of a conversation: it tells the
//! request numbers of clients apart, and nothing is kept under it.

mod accept;
mod endpoint;
mod in_flight;
mod origin;

pub use endpoint::HttpEndpoint;
