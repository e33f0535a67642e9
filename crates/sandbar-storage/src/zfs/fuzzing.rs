//! Entry points of the fuzzer.

use super::{listing, mount_table::MountTable};

/// `/proc/self/mountinfo`.
pub fn mount_table(bytes: &[u8]) {
    let _ = MountTable::parse(bytes);
}

/// Output of `zfs get`.
pub fn zfs_listing(bytes: &[u8]) {
    let _ = listing::parse(&String::from_utf8_lossy(bytes));
}
