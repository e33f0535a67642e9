//! Tests of MCP over streams, with a real host.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod connections;
mod malformed;
mod schema;
mod tools;
mod versions;
mod world;
