//! The E2B API over the wire, as the SDKs speak it, on a real host: btrfs and native boxes.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod aborted_streams;
mod callers;
mod client;
mod command;
mod commands;
mod contents;
mod control;
mod directories;
mod domain;
mod interpreter;
mod javascript;
mod large_files;
mod names;
mod ports;
mod sandboxes;
mod signed_urls;
mod templates;
mod terminals;
mod uploads;
mod watching;
mod world;
