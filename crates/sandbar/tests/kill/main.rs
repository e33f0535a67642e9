//! `kill -9` at random moments, on every storage.
//!
//! Each test repeats one operation and kills the host in the middle of it. An oracle in the test
//! records everything the host acknowledged. After the restart all of it must exist, and nothing
//! incomplete. There are 50 kills at full length; `SANDBAR_TEST_SCALE` is the percentage that is
//! run. The seed is printed, and `SANDBAR_KILL_SEED` repeats the delays of a run (the exact moment
//! of a kill depends on the machine).

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod chaos;
mod dice;
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

macro_rules! killed_under_load {
    ($($name:ident, $storage:ident, $runtime:ident, $rounds:literal;)*) => {
        $(
            #[test]
            fn $name() {
                let (storage, runtime) = (sandbar_testing::Backend::$storage, sandbar_core::RuntimeKind::$runtime);
                crate::chaos::chaos(storage, runtime, $rounds);
            }
        )*
    };
}

killed_under_load! {
    nothing_is_lost_and_nothing_leaks_under_load_on_btrfs_native, BtrfsImage, Native, 12;
    nothing_is_lost_and_nothing_leaks_under_load_on_local_disk_none, LocalDiskExt4, None, 6;
    nothing_is_lost_and_nothing_leaks_under_load_on_zfs_native, Zfs, Native, 4;
}
