//! MCP over streamable HTTP.
//!
//! Every POST is handled independently. The session id from the handshake only tells the request
//! ids of different clients apart; the server keeps no state for it.

mod accept;
mod endpoint;
mod in_flight;
mod origin;

pub use endpoint::HttpEndpoint;
