//! The surface over the wire, as the SDKs speak it, on a real host: btrfs and native boxes.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod client;
mod command;
mod commands;
mod contents;
mod control;
mod directories;
mod domain;
mod interpreter;
mod interpreter_guest;
mod javascript;
mod large_files;
mod links;
mod names;
mod ports;
mod sandboxes;
mod templates;
mod terminals;
mod uploads;
mod watching;
mod world;
