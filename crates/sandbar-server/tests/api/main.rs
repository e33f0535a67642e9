//! The API over real sockets, with a real host behind it; and the ports of real sessions, by their names.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod access;
mod audit;
mod errors;
mod exec;
mod files;
mod ingress;
mod ingress_access;
mod ingress_failures;
mod ingress_world;
mod lifecycle;
mod malformed;
mod malformed_bytes;
mod malformed_requests;
mod monitoring;
mod network;
mod processes;
mod raw;
mod reflection;
mod refusals;
mod shutdown;
mod tools;
mod wire_forms;
mod world;
