//! Volumes on a ZFS pool, driven through the `zfs` and `zpool` programs.
//!
//! ```text
//! <pool>/bases/<name>              a base: base.json, rootfs/; cloned from @ready, which is held
//! <pool>/bases/<name>:<tag>        a base being built
//! <pool>/sessions/<id>:<n>         generation n of a volume: base.json, rootfs/
//! <pool>/sessions/<id>:<n>@<tag>   a snapshot; its name is in a user property
//! <pool>/sessions/<id>:v<tag>      a snapshot made readable for a while
//! <pool>/sessions/<id>:r<tag>      a volume being received
//! ```
//!
//! Everything a call publishes appears in one command, so that nothing half-made is ever visible: a volume is a clone
//! that carries the property `sandbar:volume`, a rollback is a clone with the next generation number. The generation
//! with the highest number is the live one. What a rollback leaves behind is promoted away and destroyed afterwards,
//! by the same call when it is quick and by [`settle`](crate::Storage::settle) or the next `open` when it is not.
//! `zfs rollback` is not used: it is not atomic with later snapshots, refuses when they have forks, and on zfs-fuse it
//! takes ten times as long as a clone.
//!
//! A snapshot or volume that others were forked from is never in the way: [`discard`] promotes a fork, which takes the
//! shared snapshots over, hidden, until the last fork that needs them is gone.

mod bases;
mod catalog;
mod command;
mod discard;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod layout;
mod lend;
mod listing;
mod marks;
mod mounts;
mod namespace;
mod ownership;
mod pulse;
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
