//! The escape suite: a program inside a box tries to get out, and each way is a test of its own.
//!
//! The program is `sandbar-intruder`; it says `held` or `ESCAPED`. What it could reach is laid out on the host by
//! `sandbar_testing::Bait`. The tables, one a family, name a test for each attempt; a box of each runtime is opened for
//! each attempt, and afterwards the host and the base must be as before. That the attempts can succeed is shown by the
//! program's own tests, which run it without a box, and here by [`self_check`].
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

#[macro_use]
mod case;
#[path = "../support/ended.rs"]
mod ended;
mod world;

mod control;
mod devices;
mod environment;
mod filesystem;
mod ipc;
mod kernel;
mod keyrings;
mod knobs;
mod limits;
mod mounts;
mod namespaces;
mod network;
mod paths;
mod privileges;
mod processes;
mod self_check;
mod sockets;
mod system;
#[cfg(target_arch = "x86_64")]
mod x86;
