//! Client against a small test server, over a real socket and with every wire protocol.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod double;
mod errors;
mod in_process;
mod retries;
mod terminals;
mod uploads;
