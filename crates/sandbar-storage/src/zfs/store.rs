//! The store itself: opening, and the `Storage` contract dispatched to one file per concern.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use sandbar_core::{
    BaseName, ByteCount, Capability, Error, LaterSnapshots, OwnerMap, Result, SessionId, SnapshotName, StorageKind,
};

use super::{
    catalog::{self, Catalog},
    command::Tools,
    layout::Layout,
    listing,
    marks::Moment,
    namespace,
    pulse::Pulse,
};
use crate::{
    BaseRecord, ForkPoint, Mounted, Space, StagedBase, Storage, StorageFacts, StoredSnapshot, TreeView, Usage,
    VolumeSpec, ZfsConfig, translation::LiveMount,
};

/// Volumes on a ZFS pool.
#[derive(Debug)]
pub struct ZfsStorage {
    pub(super) tools: Tools,
    pub(super) layout: Layout,
    pub(super) facts: StorageFacts,
    catalog: Mutex<Catalog>,
    /// Held by whatever promotes or destroys datasets, because that changes datasets of other volumes.
    pub(super) surgery: Mutex<()>,
    /// Held while a dataset is looked for in the mount table and mounted.
    pub(super) mounting: Mutex<()>,
    pub(super) mounted: Mutex<HashMap<SessionId, LiveMount>>,
    pub(super) records: Mutex<HashMap<BaseName, Arc<BaseRecord>>>,
    /// When each view was last handed out, by dataset.
    pub(super) views: Mutex<HashMap<String, Instant>>,
    pub(super) reserve_is_spent: AtomicBool,
    clock: AtomicU64,
    pulse: Pulse,
}

impl ZfsStorage {
    /// Opens a pool, makes the two datasets when they are missing, and removes what interrupted calls left behind.
    pub fn open(config: &ZfsConfig) -> Result<Self> {
        let tools = Tools::find()?;
        let layout = Layout::prepare(&tools, config)?;
        let facts = StorageFacts {
            keep_later: Capability::Yes,
            quota: Capability::Yes,
            constant_time_snapshots: Capability::Yes,
            layered: Capability::no(if namespace::is_in_kernel() {
                "volumes are clones of their base, which copy nothing either"
            } else {
                "the kernel refuses an overlay whose upper layer is on FUSE; volumes are clones of their base, which copy \
                 nothing either"
            }),
            description: format!(
                "{} pool `{}`, bases in `{}`, sessions in `{}`",
                if namespace::is_in_kernel() { "OpenZFS" } else { "zfs-fuse" },
                layout.pool,
                layout.bases,
                layout.sessions
            ),
        };
        let pulse = Pulse::start(&layout).map_err(|error| Error::io("look after zfs-fuse", error))?;
        let store = Self {
            tools,
            layout,
            facts,
            catalog: Mutex::default(),
            surgery: Mutex::default(),
            mounting: Mutex::default(),
            mounted: Mutex::default(),
            records: Mutex::default(),
            views: Mutex::default(),
            reserve_is_spent: AtomicBool::new(false),
            clock: AtomicU64::new(0),
            pulse,
        };
        store.load()?;
        store.prepare_reserve();
        store.sweep_when_opened();
        Ok(store)
    }

    /// Reads the pool, and destroys what is unfinished.
    fn load(&self) -> Result<()> {
        let roots = [self.layout.bases.as_str(), self.layout.sessions.as_str()];
        let rows = listing::read_all(&self.tools, &catalog::PROPERTIES, &roots)
            .map_err(|failure| failure.into_error(format!("list pool `{}`", self.layout.pool)))?;
        let (catalog, unfinished) = Catalog::read(&self.layout, &rows)?;
        self.clock.fetch_max(catalog.latest_moment(), Ordering::Relaxed);
        *self.catalog() = catalog;
        for dataset in unfinished {
            tracing::info!(dataset, "destroying what an interrupted call left unfinished");
            self.destroy_unfinished(&dataset)?;
        }
        Ok(())
    }

    /// Never held while a command runs.
    pub(super) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        lock(&self.catalog)
    }

    /// The present, but later than every moment handed out before, also when the machine's clock was set back.
    pub(super) fn moment(&self) -> Moment {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(Moment::MAX);
        let before = self.clock.fetch_max(now, Ordering::Relaxed);
        if before < now { now } else { self.clock.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

/// A panic in another thread leaves nothing half-changed under these locks.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage for ZfsStorage {
    fn kind(&self) -> StorageKind {
        StorageKind::Zfs
    }

    fn facts(&self) -> &StorageFacts {
        &self.facts
    }

    fn bases(&self) -> Result<Vec<BaseRecord>> {
        self.list_bases()
    }

    fn base(&self, name: &BaseName) -> Result<BaseRecord> {
        Ok(self.read_base(name)?.as_ref().clone())
    }

    fn stage_base(&self, name: &BaseName) -> Result<StagedBase> {
        self.begin_base(name)
    }

    fn commit_base(&self, staged: StagedBase, record: &BaseRecord) -> Result<()> {
        self.finish_base(staged, record)
    }

    fn delete_base(&self, name: &BaseName) -> Result<()> {
        self.remove_base(name)
    }

    fn create(&self, volume: &SessionId, spec: &VolumeSpec) -> Result<()> {
        self.create_volume(volume, spec)
    }

    fn fork(&self, source: &SessionId, point: &ForkPoint, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        self.fork_volume(source, point, volume, quota)
    }

    fn delete(&self, volume: &SessionId) -> Result<()> {
        self.delete_volume(volume)
    }

    fn volumes(&self) -> Result<Vec<SessionId>> {
        Ok(self.catalog().volumes())
    }

    fn snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<StoredSnapshot> {
        self.take_snapshot(volume, name)
    }

    fn snapshots(&self, volume: &SessionId) -> Result<Vec<StoredSnapshot>> {
        self.list_snapshots(volume)
    }

    fn delete_snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<()> {
        self.remove_snapshot(volume, name)
    }

    fn rollback(&self, volume: &SessionId, name: &SnapshotName, later: LaterSnapshots) -> Result<()> {
        self.roll_back(volume, name, later)
    }

    fn mount_as(&self, volume: &SessionId, owners: Option<&OwnerMap>) -> Result<Mounted> {
        self.mount_volume(volume, owners)
    }

    fn unmount(&self, volume: &SessionId) -> Result<()> {
        self.unmount_volume(volume)
    }

    fn view(&self, volume: &SessionId, at: &ForkPoint) -> Result<TreeView> {
        self.view_volume(volume, at)
    }

    fn base_view(&self, base: &BaseName) -> Result<TreeView> {
        self.view_base(base)
    }

    fn volume_base(&self, volume: &SessionId) -> Result<BaseName> {
        Ok(self.catalog().live(volume)?.mark.base)
    }

    fn usage(&self, volume: &SessionId) -> Result<Usage> {
        self.volume_usage(volume)
    }

    fn set_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        self.change_quota(volume, quota)
    }

    fn space(&self) -> Result<Space> {
        self.pool_space()
    }

    fn settle(&self) -> Result<()> {
        self.sweep()
    }

    fn close(&self) -> Result<()> {
        self.unmount_everything()?;
        self.pulse.stop();
        self.tools.ownership.give_up();
        Ok(())
    }
}
