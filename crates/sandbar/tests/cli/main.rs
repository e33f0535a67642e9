//! The command line as people use it: the real binary against a real host, stdout, stderr and exit code compared.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod attach;
mod bases;
mod commands;
mod completion;
mod domain;
mod files;
mod life;
mod mcp;
mod measurements;
mod name_lookups;
mod network;
mod offline;
mod output;
mod processes;
mod registry_login;
mod sandboxes;
mod screen;
mod snapshots;
mod terminal;
mod tls;
mod tokens;
mod tools;
mod traces;
mod up;
mod watching;
mod world;
