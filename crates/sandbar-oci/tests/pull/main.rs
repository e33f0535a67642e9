//! Pulls from registries on this machine's loopback, good ones and bad ones.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod image;
mod pulls;
mod refusals;
mod server;
