//! Volumes on a ZFS pool, driven through the `zfs` and `zpool` programs.
//!
//! ```text
//! <pool>/bases/<name>              a base: base.json, rootfs/; cloned from @ready, which is held
//! <pool>/bases/<name>:<tag>        a base being built
//! <pool>/sessions/<id>:<n>         generation n of a volume: base.json, rootfs/
//! <pool>/sessions/<id>:<n>@<tag>   a snapshot; its name is in a user property
//! <pool>/sessions/<id>:v<tag>      a temporary clone of a snapshot, for reading
//! <pool>/sessions/<id>:r<tag>      a volume being received
//! ```
//!
//! Everything a call publishes appears in one command, so that no incomplete object is ever
//! visible: a volume is a clone with the property `sandbar:volume`, a rollback is a clone with the
//! next generation number. The generation with the highest number is the live one. Datasets that a
//! rollback leaves behind are promoted away from and destroyed afterwards: by the same call when
//! that is quick, else by [`settle`](crate::Storage::settle) or the next `open`. `zfs rollback` is
//! not used: it is not atomic with later snapshots, refuses when they have forks, and on zfs-fuse
//! takes ten times as long as a clone.
//!
//! Forks do not block the deletion of the snapshot or volume they were made from: [`discard`]
//! promotes a fork, which takes over the shared snapshots, hidden, until the last fork that needs
//! them is gone.

mod bases;
mod catalog;
mod catalog_read;
mod command;
mod discard;
mod fuse_watchdog;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod layout;
mod lend;
mod listing;
mod marks;
mod mount_table;
mod mounts;
mod namespace;
mod pool_lock;
mod rollback;
mod snapshots;
mod space;
mod store;
mod stream;
mod views;
mod volumes;

pub use namespace::share_mounts;
pub use store::ZfsStorage;
pub use stream::SnapshotGuid;
