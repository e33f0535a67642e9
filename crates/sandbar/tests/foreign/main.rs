//! Third-party clients drive a real host: create, tool, snapshot, rollback, destroy; one error with
//! its detail, one response stream, one command with input.
//!
//! The programs are in `tests/foreign`. They check the responses and print their steps, which are
//! compared with the audit log.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod builtin;
mod host;
mod mcp;
mod npm;
mod programs;
mod python;
