//! Compares the host with a simple model under random operations, valid and invalid, on every
//! storage and runtime.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod driver;
mod generator;
#[path = "../host/host_config.rs"]
mod host_config;
mod machine;
mod model;
mod operation;
mod outcome;
mod sequence;
mod shell;
mod tree;

/// Sequences that `make test-full` runs on each pair; `make test` runs fewer, `make soak` more.
macro_rules! on_every_pair {
    ($($name:ident: $storage:ident, $runtime:ident, $sequences:literal;)*) => {
        $(
            mod $name {
                #[test]
                fn host_behaves_like_the_model() {
                    let storage = sandbar_testing::Backend::$storage;
                    let runtime = sandbar_core::RuntimeKind::$runtime;
                    crate::sequence::run(storage, runtime, $sequences);
                }
            }
        )*
    };
}

on_every_pair! {
    btrfs_gvisor: BtrfsImage, Gvisor, 3;
    btrfs_native: BtrfsImage, Native, 30;
    btrfs_none: BtrfsImage, None, 12;
    local_disk_gvisor: LocalDiskExt4, Gvisor, 3;
    local_disk_native: LocalDiskExt4, Native, 12;
    local_disk_none: LocalDiskExt4, None, 12;
    zfs_gvisor: Zfs, Gvisor, 3;
    zfs_native: Zfs, Native, 3;
    zfs_none: Zfs, None, 3;
}
