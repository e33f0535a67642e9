//! The contract every backend keeps.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use sandbar_core::{
    BaseInfo, BaseName, ByteCount, Capability, LaterSnapshots, OwnerMap, Result, SessionId,
    SnapshotName, StorageKind,
};
use sandbar_oci::ImageSettings;
use serde::{Deserialize, Serialize};

use crate::TreeView;

/// Volumes and bases on one pool. All calls block; the host runs them on blocking threads.
///
/// Contract of every implementation, checked by the conformance suite:
/// - Calls are safe from several threads. The caller orders two calls on one volume; calls on
///   different volumes run concurrently.
/// - A call that fails changes nothing, except `delete*` and `rollback`, which may be incomplete
///   and are finished by calling them again.
/// - `delete` and `delete_snapshot` of a missing object succeed.
/// - Deleting a snapshot does not affect forks made from it.
/// - After `kill -9` at any time, [`open`](crate::open) of the same pool sees every completed
///   object and no incomplete one.
/// - Out of space is [`StorageFull`](sandbar_core::ErrorCode::StorageFull), and deletion still
///   works then.
pub trait Storage: fmt::Debug + Send + Sync {
    fn kind(&self) -> StorageKind;

    /// Returns what this pool supports, probed when it was opened.
    fn facts(&self) -> &StorageFacts;

    fn bases(&self) -> Result<Vec<BaseRecord>>;

    /// Returns a base. `BaseNotFound` lists the existing ones.
    fn base(&self, name: &BaseName) -> Result<BaseRecord>;

    /// Creates a directory to build a base in. Nothing is visible until
    /// [`commit_base`](Self::commit_base); `BaseExists` when the name is taken. Dropping the stage
    /// removes it.
    fn stage_base(&self, name: &BaseName) -> Result<StagedBase>;

    fn commit_base(&self, staged: StagedBase, record: &BaseRecord) -> Result<()>;

    /// Deletes a base. `InvalidState` while a volume uses it.
    fn delete_base(&self, name: &BaseName) -> Result<()>;

    /// Creates a volume over a base. `SessionExists` when the id is taken, `BaseNotFound` when the
    /// base is unknown.
    fn create(&self, volume: &SessionId, spec: &VolumeSpec) -> Result<()>;

    /// Creates a volume with the content of `source` at `point`. The source is unchanged, and the
    /// two never see each other's writes.
    fn fork(
        &self,
        source: &SessionId,
        point: &ForkPoint,
        volume: &SessionId,
        quota: Option<ByteCount>,
    ) -> Result<()>;

    /// Deletes a volume with its snapshots, after unmounting it.
    fn delete(&self, volume: &SessionId) -> Result<()>;

    /// Lists every committed volume, with or without a session record.
    fn volumes(&self) -> Result<Vec<SessionId>>;

    /// Takes a snapshot. `SnapshotExists` when the name is taken.
    fn snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<StoredSnapshot>;

    /// Lists snapshots, oldest first.
    fn snapshots(&self, volume: &SessionId) -> Result<Vec<StoredSnapshot>>;

    fn delete_snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<()>;

    /// Resets the volume to a snapshot and unmounts it. The snapshot is checked before anything
    /// changes; the caller has stopped the session's processes.
    fn rollback(
        &self,
        volume: &SessionId,
        name: &SnapshotName,
        later: LaterSnapshots,
    ) -> Result<()>;

    /// Mounts the volume in the calling thread's mount namespace, with `nodev` and `nosuid`.
    ///
    /// With `owners`, the mount is ID-mapped: owner `n` on disk is `first + n` in the mounted tree,
    /// and a file created by `first + n` belongs to `n` on disk. Snapshots, forks,
    /// [`view`](Self::view) and packs use the owners on disk. Ids outside the map cannot create
    /// files, host root included: see [`ActingOwner`](sandbar_tree::ActingOwner). Where the kernel
    /// or the file system does not support ID-mapped mounts, owners are those on disk, and
    /// [`Mounted::translated`] is false.
    ///
    /// Mounting twice with the same owners is a no-op. With other owners, the new mount replaces
    /// the old one; the caller has stopped the session's processes.
    fn mount_as(&self, volume: &SessionId, owners: Option<&OwnerMap>) -> Result<Mounted>;

    /// [`mount_as`](Self::mount_as) with the owners on disk; returns the root.
    fn mount(&self, volume: &SessionId) -> Result<PathBuf> {
        self.mount_as(volume, None).map(|mounted| mounted.root)
    }

    fn unmount(&self, volume: &SessionId) -> Result<()>;

    /// Returns the directories a volume is merged from, at a snapshot or now. [`diff`](crate::diff)
    /// and [`pack`](crate::pack) read through it.
    fn view(&self, volume: &SessionId, at: &ForkPoint) -> Result<TreeView>;

    /// Returns the view of a base alone, as a new volume would show it.
    fn base_view(&self, base: &BaseName) -> Result<TreeView>;

    /// Returns the base of a volume.
    fn volume_base(&self, volume: &SessionId) -> Result<BaseName>;

    fn usage(&self, volume: &SessionId) -> Result<Usage>;

    /// Limits the space of a volume; `None` removes the limit. `InvalidArgument` when the pool
    /// cannot enforce one.
    fn set_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()>;

    /// Returns the space of the whole pool.
    fn space(&self) -> Result<Space>;

    /// Waits until the space of deleted objects is free. Called by the janitor and by tests, never
    /// by requests.
    fn settle(&self) -> Result<()>;

    /// Removes the permissions of other users from the directories above the trees of sessions,
    /// if they were given back since the store was opened. Called by the janitor.
    fn close_to_others(&self) -> Result<()> {
        Ok(())
    }

    /// Unmounts everything this store mounted in the calling thread's namespace and closes the
    /// pool. Data stays.
    fn close(&self) -> Result<()>;
}

/// Mounted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    pub root: PathBuf,
    /// Whether owners are translated by the requested map.
    pub translated: bool,
}

/// State of a volume: current, or at a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkPoint {
    Now,
    Snapshot(SnapshotName),
}

/// Parameters of a new volume.
#[derive(Clone, Debug)]
pub struct VolumeSpec {
    pub base: BaseName,
    pub quota: Option<ByteCount>,
}

/// Snapshot as recorded by the backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    pub name: SnapshotName,
    pub created: Timestamp,
    /// Bytes referenced by this snapshot only, where the backend accounts for them.
    pub space_used: Option<ByteCount>,
}

/// Capabilities of a pool, with the reason for each missing one.
#[derive(Clone, Debug)]
pub struct StorageFacts {
    pub keep_later: Capability,
    pub quota: Capability,
    pub constant_time_snapshots: Capability,
    pub layered: Capability,
    /// One line for humans: file system, location, why it was chosen.
    pub description: String,
}

/// Space used by one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes beyond its base, without snapshots where the backend can tell them apart.
    pub used: ByteCount,
}

/// Space and health of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    pub total: ByteCount,
    pub available: ByteCount,
    /// State as reported by the backend: `ONLINE`, `DEGRADED`, `read-only`.
    pub state: String,
    pub healthy: bool,
}

impl Space {
    /// Returns the used share of the pool, between 0 and 1.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share needs no more than 52 bits"
    )]
    pub fn used_share(&self) -> f64 {
        if self.total.get() == 0 {
            return 1.0;
        }
        1.0 - self.available.get().min(self.total.get()) as f64 / self.total.get() as f64
    }
}

/// Origin of a base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseSource {
    /// This machine's own programs and libraries.
    Host,
    Directory,
    Tar,
    OciLayout,
    DockerArchive,
}

impl BaseSource {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Directory => "directory",
            Self::Tar => "tar",
            Self::OciLayout => "oci-layout",
            Self::DockerArchive => "docker-archive",
        }
    }
}

/// Record of a base, a read-only root file system. Stored as `base.json` beside the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseRecord {
    pub version: u32,
    pub name: BaseName,
    pub source: BaseSource,
    pub created: Timestamp,
    /// `/` first, then deeper mount points.
    pub layers: Vec<BaseLayer>,
    /// Environment variables from the image.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Run settings of the image the base was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSettings>,
    /// Bytes of its own files, without directories lent by the host.
    pub size: ByteCount,
}

impl BaseRecord {
    pub const VERSION: u32 = 1;
}

impl From<BaseRecord> for BaseInfo {
    fn from(base: BaseRecord) -> Self {
        let source = base.source.as_str().to_owned();
        Self {
            name: base.name,
            source,
            created: base.created,
            size: base.size,
            env: base.env,
        }
    }
}

/// Directory of a base and its mount point in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseLayer {
    pub mount_point: PathBuf,
    pub directory: LayerDirectory,
}

/// Location of the files of a base layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerDirectory {
    /// `rootfs` inside the base.
    Own,
    /// Directory of this machine, the read-only lower layer of the session's overlay.
    Host(PathBuf),
}

/// Base under construction. Fill [`rootfs`](Self::rootfs), then commit.
pub struct StagedBase {
    pub name: BaseName,
    directory: PathBuf,
    discard: Option<Box<dyn FnOnce() + Send>>,
}

impl StagedBase {
    /// `directory` holds an empty `rootfs`; `discard` removes it when the stage is dropped without
    /// a commit.
    pub(crate) fn new(
        name: BaseName,
        directory: PathBuf,
        discard: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self {
            name,
            directory,
            discard: Some(Box::new(discard)),
        }
    }

    /// Returns the directory of the record and the tree.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the root of the tree under construction.
    pub fn rootfs(&self) -> PathBuf {
        self.directory.join("rootfs")
    }

    /// Disarms the removal on drop, because the stage was moved to its final place.
    pub(crate) fn keep(mut self) {
        self.discard = None;
    }
}

impl Drop for StagedBase {
    fn drop(&mut self) {
        if let Some(discard) = self.discard.take() {
            discard();
        }
    }
}

impl fmt::Debug for StagedBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedBase")
            .field("name", &self.name)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}
