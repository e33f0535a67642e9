//! `kill -9` at random moments, on every storage.
//!
//! Each test repeats one operation and kills the host somewhere in the middle of it. An oracle in the test remembers
//! everything the host acknowledged. After the restart all of it must be there, and nothing half-made.
//! `SANDBAR_KILL_ROUNDS` sets the number of kills (50 by default).

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod oracle;
mod rounds;
mod world;

macro_rules! killed_during {
    ($($operation:ident),*) => {
        killed_during!(@storage btrfs, BtrfsImage, $($operation),*);
        killed_during!(@storage local_disk, LocalDiskExt4, $($operation),*);
        killed_during!(@storage zfs, Zfs, $($operation),*);
    };
    (@storage $storage:ident, $variant:ident, $($operation:ident),*) => {
        mod $storage {
            $(
                #[test]
                fn $operation() {
                    crate::rounds::run(sandbar_testing::Backend::$variant, crate::rounds::Operation::$operation());
                }
            )*
        }
    };
}

killed_during!(create, snapshot, rollback, fork, destroy);
