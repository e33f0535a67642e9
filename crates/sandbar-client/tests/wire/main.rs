//! The client against a server of a few lines, over a real socket and in every wire form.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod double;
mod errors;
mod in_process;
mod retries;
mod terminals;
mod uploads;
