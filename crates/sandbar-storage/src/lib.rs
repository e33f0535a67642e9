//! Copy-on-write volumes: the bottom layer of Sandbar.
//!
//! A *volume* is the writable copy-on-write tree of one session. [`Storage`] creates, snapshots,
//! rolls back, forks, compares and deletes volumes; [`open`] picks the backend. `btrfs` and
//! `local-disk` share one layered store over different primitives; `zfs` drives the `zfs` command
//! line. [`pack`] moves a volume to an object store and back, and [`import`] creates bases from
//! directories, archives, images and this machine.
//!
//! Invariant: a name is in its final place only when its object is complete. Objects under
//! construction are in `staging`, discarded ones in `trash`; both are emptied when a store is
//! opened.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "tests start programs and tasks as they need"
    )
)]

mod btrfs;
pub mod diff;
mod errors;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod import;
mod layered;
mod local_disk;
mod mount_attributes;
mod mount_clone;
mod open;
mod overlay;
pub mod pack;
mod private_directory;
mod private_mounts;
mod storage;
mod translation;
mod view;
mod world_readable;
pub mod zfs;

pub use diff::DiffEntry;
pub use errors::{base_exists, base_not_found, snapshot_not_found};
pub use import::{
    ImportProgress, ImportSource, fill_host_root, import_base, import_base_while, lent_directory_of,
};
pub use open::{OpenedStorage, StorageConfig, ZfsConfig, open};
pub use private_directory::require_safe_place;
pub use private_mounts::enter_private_mounts;

pub use storage::{
    BaseLayer, BaseRecord, BaseSource, ForkPoint, LayerDirectory, Mounted, Space, StagedBase,
    Storage, StorageFacts, StoredSnapshot, Usage, VolumeSpec,
};
pub use view::{TreeView, ViewLayer};
pub use zfs::ZfsStorage;
