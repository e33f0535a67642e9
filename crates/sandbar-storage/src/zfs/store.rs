//! The store: opening it, and the `Storage` trait, with one module per concern.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use sandbar_core::{
    BaseName, ByteCount, Capability, Error, LaterSnapshots, OwnerMap, Result, SessionId,
    SnapshotName, StorageKind,
};

use super::{
    bases, catalog::Catalog, catalog_read, command::Tools, discard, fuse_watchdog::FuseWatchdog,
    layout::Layout, listing, marks::Moment, mounts, namespace, rollback, snapshots, space, views,
    volumes,
};
use crate::{
    BaseRecord, ForkPoint, Mounted, Space, StagedBase, Storage, StorageFacts, StoredSnapshot,
    TreeView, Usage, VolumeSpec, ZfsConfig, private_directory::remove_other_access,
    translation::LiveMount,
};

/// Volumes on a ZFS pool.
#[derive(Debug)]
pub struct ZfsStorage {
    pub(super) tools: Tools,
    pub(super) layout: Layout,
    pub(super) facts: StorageFacts,
    catalog: Mutex<Catalog>,
    /// Held while datasets are promoted or destroyed, because that changes datasets of other
    /// volumes.
    pub(super) dataset_lock: Mutex<()>,
    /// Held between reading the mount table and mounting a dataset.
    pub(super) mounting: Mutex<()>,
    pub(super) mounted: Mutex<HashMap<SessionId, LiveMount>>,
    pub(super) records: Mutex<HashMap<BaseName, Arc<BaseRecord>>>,
    /// Time each view was last returned, by dataset.
    pub(super) views: Mutex<HashMap<String, Instant>>,
    pub(super) reserve_is_spent: AtomicBool,
    clock: AtomicU64,
    fuse_watchdog: FuseWatchdog,
}

impl ZfsStorage {
    /// Opens a pool, creates the two datasets when missing, and removes what interrupted calls
    /// left.
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
                if namespace::is_in_kernel() {
                    "OpenZFS"
                } else {
                    "zfs-fuse"
                },
                layout.pool,
                layout.bases,
                layout.sessions
            ),
        };
        let fuse_watchdog = FuseWatchdog::start(&layout)
            .map_err(|error| Error::io("start the zfs-fuse watchdog", error))?;
        let store = Self {
            tools,
            layout,
            facts,
            catalog: Mutex::default(),
            dataset_lock: Mutex::default(),
            mounting: Mutex::default(),
            mounted: Mutex::default(),
            records: Mutex::default(),
            views: Mutex::default(),
            reserve_is_spent: AtomicBool::new(false),
            clock: AtomicU64::new(0),
            fuse_watchdog,
        };
        store.load()?;
        store.prepare_reserve();
        store.sweep_when_opened();
        Ok(store)
    }

    /// Reads the pool and destroys unfinished datasets.
    fn load(&self) -> Result<()> {
        let roots = [self.layout.bases.as_str(), self.layout.sessions.as_str()];
        let rows = listing::read_all(&self.tools, &catalog_read::PROPERTIES, &roots)
            .map_err(|failure| failure.into_error(format!("list pool `{}`", self.layout.pool)))?;
        let (catalog, unfinished) = Catalog::read(&self.layout, &rows)?;
        self.clock
            .fetch_max(catalog.latest_moment(), Ordering::Relaxed);
        *self.catalog() = catalog;
        for dataset in unfinished {
            tracing::info!(
                dataset,
                "destroying the unfinished dataset of an interrupted call"
            );
            self.destroy_unfinished(&dataset)?;
        }
        Ok(())
    }

    /// Locks the catalog. Never held while a command runs.
    pub(super) fn catalog(&self) -> MutexGuard<'_, Catalog> {
        lock(&self.catalog)
    }

    /// Returns the current time, but later than every moment returned before, also when the clock
    /// was set back.
    pub(super) fn moment(&self) -> Moment {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(Moment::MAX);
        let before = self.clock.fetch_max(now, Ordering::Relaxed);
        if before < now {
            now
        } else {
            self.clock.fetch_add(1, Ordering::Relaxed) + 1
        }
    }
}

/// Locks a mutex, ignoring poison: a panic in another thread leaves no partial change under these
/// locks.
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
        bases::bases(self)
    }

    fn base(&self, name: &BaseName) -> Result<BaseRecord> {
        Ok(self.base_record(name)?.as_ref().clone())
    }

    fn stage_base(&self, name: &BaseName) -> Result<StagedBase> {
        bases::stage_base(self, name)
    }

    fn commit_base(&self, staged: StagedBase, record: &BaseRecord) -> Result<()> {
        bases::commit_base(self, staged, record)
    }

    fn delete_base(&self, name: &BaseName) -> Result<()> {
        bases::delete_base(self, name)
    }

    fn create(&self, volume: &SessionId, spec: &VolumeSpec) -> Result<()> {
        volumes::create(self, volume, spec)
    }

    fn fork(
        &self,
        source: &SessionId,
        point: &ForkPoint,
        volume: &SessionId,
        quota: Option<ByteCount>,
    ) -> Result<()> {
        volumes::fork(self, source, point, volume, quota)
    }

    fn delete(&self, volume: &SessionId) -> Result<()> {
        volumes::delete(self, volume)
    }

    fn volumes(&self) -> Result<Vec<SessionId>> {
        Ok(self.catalog().volumes())
    }

    fn snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<StoredSnapshot> {
        snapshots::snapshot(self, volume, name)
    }

    fn snapshots(&self, volume: &SessionId) -> Result<Vec<StoredSnapshot>> {
        snapshots::snapshots(self, volume)
    }

    fn delete_snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<()> {
        snapshots::delete_snapshot(self, volume, name)
    }

    fn rollback(
        &self,
        volume: &SessionId,
        name: &SnapshotName,
        later: LaterSnapshots,
    ) -> Result<()> {
        rollback::rollback(self, volume, name, later)
    }

    fn mount_as(&self, volume: &SessionId, owners: Option<&OwnerMap>) -> Result<Mounted> {
        mounts::mount_as(self, volume, owners)
    }

    fn unmount(&self, volume: &SessionId) -> Result<()> {
        mounts::unmount(self, volume)
    }

    fn view(&self, volume: &SessionId, at: &ForkPoint) -> Result<TreeView> {
        views::view(self, volume, at)
    }

    fn base_view(&self, base: &BaseName) -> Result<TreeView> {
        views::base_view(self, base)
    }

    fn volume_base(&self, volume: &SessionId) -> Result<BaseName> {
        Ok(self.catalog().live(volume)?.mark.base)
    }

    fn usage(&self, volume: &SessionId) -> Result<Usage> {
        space::usage(self, volume)
    }

    fn set_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        space::set_quota(self, volume, quota)
    }

    fn space(&self) -> Result<Space> {
        space::space(self)
    }

    fn settle(&self) -> Result<()> {
        discard::settle(self)
    }

    fn close_to_others(&self) -> Result<()> {
        remove_other_access(&self.layout.bases_directory)?;
        remove_other_access(&self.layout.sessions_directory)
    }

    fn close(&self) -> Result<()> {
        mounts::unmount_all(self)?;
        self.fuse_watchdog.stop();
        self.tools.pool_lock.release();
        Ok(())
    }
}
