//! End-to-end tests of the command line: the binary against a real host, with stdout, stderr and
//! exit code compared.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
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
