//! The protocol over streams, with a real host behind it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conversations;
mod malformed;
mod schema;
mod tools;
mod versions;
mod world;
