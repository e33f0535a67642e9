//! Copy-on-write volumes: the bottom layer of Sandbar.
//!
//! A *volume* is the file system of one session. [`Storage`] makes, snapshots, rolls back, forks, compares and
//! deletes volumes; [`open`] picks the backend. `btrfs` and `local-disk` are one layered store over two sets of
//! primitives; `zfs` drives the `zfs` command line. [`pack`] moves a volume to an object store and back, and
//! [`import`] makes bases from directories, archives, images and this machine.
//!
//! Invariant: a name is in its final place only when the thing it names is complete. Everything half-made lives under
//! `staging`, everything given up under `trash`, and both are emptied when a store is opened.

mod acting_owner;
pub mod archive;
mod btrfs;
mod closed;
mod confine;
mod descent;
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
mod private_mounts;
mod screen;
pub mod session_tree;
mod storage;
mod translation;
mod tree_copy;
mod tree_remove;
mod tree_usage;
mod view;
mod xattrs;
pub mod zfs;

pub use acting_owner::ActingOwner;
pub use confine::open_confined;
pub use diff::DiffEntry;
pub use errors::{base_exists, base_not_found, snapshot_not_found};
pub use import::{ImportProgress, ImportSource, fill_host_root, import_base, lent_directory_of};
pub use open::{OpenedStorage, StorageConfig, ZfsConfig, open};
pub use private_mounts::enter_private_mounts;
pub use session_tree::{Draft, SessionTree};

pub use storage::{
    BaseLayer, BaseRecord, BaseSource, ForkPoint, ImageSettings, LayerDirectory, Mounted, Space, StagedBase, Storage,
    StorageFacts, StoredSnapshot, Usage, VolumeSpec,
};
pub use tree_copy::{CopyOptions, CopySummary, Fidelity, OverlayInternals, copy_tree};
pub use tree_remove::remove_tree;
pub use view::{TreeView, ViewLayer};
pub use zfs::ZfsStorage;
