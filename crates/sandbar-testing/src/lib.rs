//! Fixtures and helpers for the tests of all crates. Never shipped.
//!
//! Everything made here is real and goes away with the test, also when the test fails or is killed:
//! mounts live in a private mount namespace, loop devices clear themselves, files lie in `TMPDIR`,
//! which is `/var/tmp/sandbar-test-RUN` in a run of `scripts/in-test-run.sh`.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot be set up fails at once"
)]

mod bait;
mod bare_server;
mod condition;
mod floor;
mod image;
pub mod internet;
mod lease;
pub mod measure;
mod moto_s3;
pub mod name_server;
mod namespace;
mod ordinary_user;
mod owners;
mod packages;
pub mod plain_http;
mod pty;
mod random_tree;
pub mod raw_storage;
mod scale;
mod scratch_directory;
mod server;
mod skip;
mod small_root;
mod storage_fixture;
pub mod tree;
mod zfs_pool;

pub use bait::{Bait, HostState, Intruder};
pub use bare_server::{BareServer, serve_bare};
pub use condition::eventually;
pub use floor::Floor;
pub use image::{FileSystem, Image};
pub use lease::take_lease;
pub use moto_s3::MotoS3;
pub use namespace::private_mounts;
pub use ordinary_user::{ORDINARY_USER, again_as_user};
pub use owners::owner_map;
pub use packages::{installed, installed_python, require_installed, require_node_modules};
pub use pty::{Pty, Seat};
pub use random_tree::{Node, random_tree};
pub use scale::scaled;
pub use scratch_directory::ScratchDirectory;
pub use server::{Finished, TestServer, TestServerOptions};
pub use skip::report_skip;
pub use small_root::make_small_root;
pub use storage_fixture::{Backend, StorageFixture, commit_base, small_base};
pub use zfs_pool::{ZfsDaemon, ZfsPool};
