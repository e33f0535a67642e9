//! The command line as people use it: the real binary against a real host, stdout, stderr and exit code compared.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop where it stands")]

mod bases;
mod commands;
mod files;
mod offline;
mod sandboxes;
mod snapshots;
mod up;
mod world;
