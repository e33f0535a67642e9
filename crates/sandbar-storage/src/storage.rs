//! The contract every backend keeps.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use sandbar_core::{
    BaseInfo, BaseName, ByteCount, Capability, LaterSnapshots, OwnerMap, Result, SessionId, SnapshotName, StorageKind,
};
use serde::{Deserialize, Serialize};

use crate::TreeView;

/// Volumes and bases on one pool. All calls block; the host runs them on threads of their own.
///
/// What an implementation must keep, and the conformance suite checks:
/// - Calls are safe from several threads. Two calls on one volume are ordered by the caller, on different volumes they
///   may run at once.
/// - A call that fails leaves what was there before, except `delete*` and `rollback`, which may be half done and are
///   finished by calling them again.
/// - `delete` and `delete_snapshot` succeed when there is nothing to delete.
/// - Deleting a snapshot never harms forks made from it.
/// - After `kill -9` at any moment, [`open`](crate::open) of the same pool sees every completed thing and no
///   half-made one.
/// - Out of space is [`StorageFull`](sandbar_core::ErrorCode::StorageFull), and deletion still works then.
pub trait Storage: fmt::Debug + Send + Sync {
    fn kind(&self) -> StorageKind;

    /// What this pool can do, found out by trying when it was opened.
    fn facts(&self) -> &StorageFacts;

    fn bases(&self) -> Result<Vec<BaseRecord>>;

    /// `BaseNotFound` names the bases there are.
    fn base(&self, name: &BaseName) -> Result<BaseRecord>;

    /// A place to build a base in. Nothing is visible until [`commit_base`](Self::commit_base); `BaseExists` when the
    /// name is taken. Dropping the stage removes what was built.
    fn stage_base(&self, name: &BaseName) -> Result<StagedBase>;

    fn commit_base(&self, staged: StagedBase, record: &BaseRecord) -> Result<()>;

    /// `InvalidState` while a volume stands on it.
    fn delete_base(&self, name: &BaseName) -> Result<()>;

    /// A new volume over a base. `SessionExists` when the id is taken, `BaseNotFound` when the base is unknown.
    fn create(&self, volume: &SessionId, spec: &VolumeSpec) -> Result<()>;

    /// A new volume with the content of `source` at `point`; the source is untouched and the two never see each
    /// other's writes.
    fn fork(&self, source: &SessionId, point: &ForkPoint, volume: &SessionId, quota: Option<ByteCount>) -> Result<()>;

    /// Removes a volume with its snapshots. It is unmounted first.
    fn delete(&self, volume: &SessionId) -> Result<()>;

    /// Every volume in its final place, with or without a session that knows it.
    fn volumes(&self) -> Result<Vec<SessionId>>;

    /// `SnapshotExists` when the name is taken.
    fn snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<StoredSnapshot>;

    /// Oldest first.
    fn snapshots(&self, volume: &SessionId) -> Result<Vec<StoredSnapshot>>;

    fn delete_snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<()>;

    /// Puts the volume back to a snapshot. The target is checked before anything changes. The volume is unmounted;
    /// the caller has stopped what ran on it.
    fn rollback(&self, volume: &SessionId, name: &SnapshotName, later: LaterSnapshots) -> Result<()>;

    /// Makes the volume's tree visible in the calling thread's mount namespace. Device nodes open nothing there, and
    /// setuid bits raise nobody.
    ///
    /// With `owners`, owner `n` on disk is `first + n` in the mounted tree, in everything it is made of, and what is
    /// made by `first + n` belongs to `n` on disk; snapshots, forks, [`view`](Self::view) and packs only know those on
    /// disk. Nobody outside the map can make anything there, the host's root included: see
    /// [`ActingOwner`](crate::ActingOwner). Where kernel or file system cannot translate, the tree is mounted as it is
    /// on disk, and [`Mounted::translated`] says so.
    ///
    /// Mounting twice with the same owners is fine. With others, the new mount takes the place of the old one; the
    /// caller has stopped what ran on it.
    fn mount_as(&self, volume: &SessionId, owners: Option<&OwnerMap>) -> Result<Mounted>;

    /// [`mount_as`](Self::mount_as) with the owners on disk; returns the root.
    fn mount(&self, volume: &SessionId) -> Result<PathBuf> {
        self.mount_as(volume, None).map(|mounted| mounted.root)
    }

    fn unmount(&self, volume: &SessionId) -> Result<()>;

    /// Where the parts of a volume's tree lie, at a snapshot or now. [`diff`](crate::diff) and [`pack`](crate::pack)
    /// read through it.
    fn view(&self, volume: &SessionId, at: &ForkPoint) -> Result<TreeView>;

    /// The tree of a base alone, as a new volume would show it.
    fn base_view(&self, base: &BaseName) -> Result<TreeView>;

    /// The base a volume stands on.
    fn volume_base(&self, volume: &SessionId) -> Result<BaseName>;

    fn usage(&self, volume: &SessionId) -> Result<Usage>;

    /// Bounds what a volume may hold; `None` lifts the bound. `InvalidArgument` when the pool cannot enforce one.
    fn set_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()>;

    /// Space of the whole pool.
    fn space(&self) -> Result<Space>;

    /// Waits until everything already deleted has given its space back. The janitor and tests call it; requests never
    /// do.
    fn settle(&self) -> Result<()>;

    /// Unmounts everything this store mounted in the calling thread's namespace and lets go of the pool. Data stays.
    fn close(&self) -> Result<()>;
}

/// A volume's tree in the mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    pub root: PathBuf,
    /// Whether owners are those of the map that was asked for.
    pub translated: bool,
}

/// A moment in a volume's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkPoint {
    Now,
    Snapshot(SnapshotName),
}

/// What a volume is made from.
#[derive(Clone, Debug)]
pub struct VolumeSpec {
    pub base: BaseName,
    pub quota: Option<ByteCount>,
}

/// A snapshot as the backend knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    pub name: SnapshotName,
    pub created: Timestamp,
    /// Bytes only this snapshot holds, where the backend keeps count.
    pub space_used: Option<ByteCount>,
}

/// What a pool can do, with the reasons for what it cannot.
#[derive(Clone, Debug)]
pub struct StorageFacts {
    pub keep_later: Capability,
    pub quota: Capability,
    pub constant_time_snapshots: Capability,
    pub layered: Capability,
    /// One line for people: file system, where it lies, why it was chosen.
    pub description: String,
}

/// Bytes of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Beyond its base, snapshots not counted where the backend can tell.
    pub used: ByteCount,
}

/// Bytes of a pool, and whether it is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    pub total: ByteCount,
    pub available: ByteCount,
    /// The backend's own word: `ONLINE`, `DEGRADED`, `read-only`.
    pub state: String,
    pub healthy: bool,
}

impl Space {
    /// Share of the pool that is taken, between 0 and 1.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than 52 bits")]
    pub fn used_share(&self) -> f64 {
        if self.total.get() == 0 {
            return 1.0;
        }
        1.0 - self.available.get().min(self.total.get()) as f64 / self.total.get() as f64
    }
}

/// Where a base came from.
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

/// A read-only tree sessions start from. Kept as `base.json` beside the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseRecord {
    pub version: u32,
    pub name: BaseName,
    pub source: BaseSource,
    pub created: Timestamp,
    /// `/` first, then deeper mount points.
    pub layers: Vec<BaseLayer>,
    /// Environment an image asks for.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// How an image wants to be run, where the base came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSettings>,
    /// Bytes of its own files; what the host lends is not counted.
    pub size: ByteCount,
}

impl BaseRecord {
    pub const VERSION: u32 = 1;
}

/// What an image says about the programs in it. Nothing here is done by itself; it is there for who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImageSettings {
    /// Who they run as: a name or a number, perhaps with a group after a colon.
    pub user: Option<String>,
    /// Where they start.
    pub working_dir: Option<String>,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
}

impl From<BaseRecord> for BaseInfo {
    fn from(base: BaseRecord) -> Self {
        let source = base.source.as_str().to_owned();
        Self { name: base.name, source, created: base.created, size: base.size, env: base.env }
    }
}

/// One directory of a base and where it appears in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseLayer {
    pub mount_point: PathBuf,
    pub directory: LayerDirectory,
}

/// Where the files of a base layer are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerDirectory {
    /// `rootfs` inside the base.
    Own,
    /// A directory of this machine, shown read-only below the session's layer.
    Host(PathBuf),
}

/// A base being built. Fill [`rootfs`](Self::rootfs), then commit.
pub struct StagedBase {
    pub name: BaseName,
    directory: PathBuf,
    discard: Option<Box<dyn FnOnce() + Send>>,
}

impl StagedBase {
    /// `directory` holds an empty `rootfs`; `discard` removes it when the stage is dropped without a commit.
    pub(crate) fn new(name: BaseName, directory: PathBuf, discard: impl FnOnce() + Send + 'static) -> Self {
        Self { name, directory, discard: Some(Box::new(discard)) }
    }

    /// The directory the record and the tree lie in.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The root of the tree being built.
    pub fn rootfs(&self) -> PathBuf {
        self.directory.join("rootfs")
    }

    /// The backend has moved the stage to its final place: nothing is left to remove.
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
