//! Escape suite: a program inside a box tries to break out; each attempt is a test.
//!
//! The program is `sandbar-intruder`; it reports `held` or `ESCAPED`. `sandbar_testing::Bait`
//! creates the targets on the host. A table per family names a test for each attempt. Each attempt
//! runs in a new box, and afterwards the host and the base must be unchanged. The intruder's own
//! tests, which run it without a box, and [`self_check`] show that attempts can succeed.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up has failed"
)]

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
