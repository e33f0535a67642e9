//! The API over real sockets, with a real host on local-disk storage behind it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod access;
mod audit;
mod exec;
mod files;
mod lifecycle;
mod monitoring;
mod network;
mod processes;
mod raw;
mod reflection;
mod refusals;
mod shutdown;
mod tools;
mod world;
