//! Ways to what the kernel and `zfs` print for the fuzzer.

use super::{listing, mounts::MountTable};

/// `/proc/self/mountinfo`.
pub fn mount_table(bytes: &[u8]) {
    let _ = MountTable::parse(bytes);
}

/// What `zfs get` prints.
pub fn zfs_listing(bytes: &[u8]) {
    let _ = listing::parse(&String::from_utf8_lossy(bytes));
}
