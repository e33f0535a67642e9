//! Entry points of the fuzzer. Each takes any bytes, and panics where an invariant is broken.

pub use crate::{
    import::fuzzing::archive_contents,
    pack::fuzzing::pack_manifest,
    zfs::fuzzing::{mount_table, zfs_listing},
};
