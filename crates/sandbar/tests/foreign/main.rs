//! Clients no one here wrote drive a real host: create, tool, snapshot, rollback, destroy; one error with its detail read by
//! the client, one stream of answers, one command with input.
//!
//! The programs are in `tests/foreign`. They check what they see and say which steps they took; the audit log tells
//! whether the host saw the same.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod builtin;
mod host;
mod mcp;
mod npm;
mod programs;
mod python;
