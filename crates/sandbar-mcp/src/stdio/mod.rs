//! MCP on a pair of streams: one message a line.

mod connection;
mod lines;

pub use connection::{Ended, serve_stdio};
