//! Volumes as a small writable layer over a shared read-only base.
//!
//! [`LayeredStorage`] implements `btrfs` and `local-disk` over a few [`Primitives`]: create, copy
//! and remove a tree. A volume is one tree that holds an overlay upper for each mount point of its
//! base; a snapshot is a copy of that tree. The base is never copied. So create, snapshot, fork and
//! rollback cost as much as the session changed (local disk) or constant time (btrfs), and all
//! sessions share the page cache of the base.
//!
//! Where no overlay can be mounted (an ordinary user), the base is copied into the volume and the
//! tree is flat.
//!
//! Invariant: `volumes/<id>` and `volumes/<id>/snapshots/<name>` appear and disappear by one rename
//! or one ioctl.

mod bases;
mod closer;
mod layout;
mod mounts;
mod primitives;
mod reaper;
mod snapshots;
mod store;
mod volumes;

pub(crate) use layout::{Layout, make_directory, publish, read_record, write_record};
pub(crate) use primitives::{Birth, Primitives, TreeAccess};
pub(crate) use store::LayeredStorage;
