//! A real storage with faults in it.

use std::sync::{Arc, Mutex};

use sandbar_core::{
    BaseName, ByteCount, LaterSnapshots, OwnerMap, Result, SessionId, SnapshotName, StorageKind,
};
use sandbar_storage::{
    BaseRecord, ForkPoint, Mounted, Space, StagedBase, Storage, StorageFacts, StoredSnapshot,
    TreeView, Usage, VolumeSpec,
};

use crate::switchboard::Switchboard;

/// Puts the switchboard between the host and a storage.
#[derive(Debug)]
pub(crate) struct FaultyStorage {
    pub(crate) real: Arc<dyn Storage>,
    pub(crate) faults: Arc<Switchboard>,
    /// Space to report instead of the real one.
    pub(crate) space: Arc<Mutex<Option<Space>>>,
}

impl Storage for FaultyStorage {
    fn kind(&self) -> StorageKind {
        self.real.kind()
    }
    fn facts(&self) -> &StorageFacts {
        self.real.facts()
    }
    fn bases(&self) -> Result<Vec<BaseRecord>> {
        self.faults.around("bases", || self.real.bases())
    }
    fn base(&self, name: &BaseName) -> Result<BaseRecord> {
        self.faults.around("base", || self.real.base(name))
    }
    fn stage_base(&self, name: &BaseName) -> Result<StagedBase> {
        self.faults
            .around("stage_base", || self.real.stage_base(name))
    }
    fn commit_base(&self, staged: StagedBase, record: &BaseRecord) -> Result<()> {
        self.faults
            .around("commit_base", || self.real.commit_base(staged, record))
    }
    fn delete_base(&self, name: &BaseName) -> Result<()> {
        self.faults
            .around("delete_base", || self.real.delete_base(name))
    }
    fn create(&self, volume: &SessionId, spec: &VolumeSpec) -> Result<()> {
        self.faults
            .around("create", || self.real.create(volume, spec))
    }
    fn fork(
        &self,
        source: &SessionId,
        point: &ForkPoint,
        volume: &SessionId,
        quota: Option<ByteCount>,
    ) -> Result<()> {
        self.faults
            .around("fork", || self.real.fork(source, point, volume, quota))
    }
    fn delete(&self, volume: &SessionId) -> Result<()> {
        self.faults.around("delete", || self.real.delete(volume))
    }
    fn volumes(&self) -> Result<Vec<SessionId>> {
        let all_but_one = || {
            self.real
                .volumes()
                .map(|all| all.into_iter().skip(1).collect())
        };
        self.faults
            .around_or("volumes", || self.real.volumes(), all_but_one)
    }
    fn snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<StoredSnapshot> {
        self.faults
            .around("snapshot", || self.real.snapshot(volume, name))
    }
    fn snapshots(&self, volume: &SessionId) -> Result<Vec<StoredSnapshot>> {
        self.faults
            .around("snapshots", || self.real.snapshots(volume))
    }
    fn delete_snapshot(&self, volume: &SessionId, name: &SnapshotName) -> Result<()> {
        self.faults.around("delete_snapshot", || {
            self.real.delete_snapshot(volume, name)
        })
    }
    fn rollback(
        &self,
        volume: &SessionId,
        name: &SnapshotName,
        later: LaterSnapshots,
    ) -> Result<()> {
        self.faults
            .around("rollback", || self.real.rollback(volume, name, later))
    }
    fn mount_as(&self, volume: &SessionId, owners: Option<&OwnerMap>) -> Result<Mounted> {
        self.faults
            .around("mount_as", || self.real.mount_as(volume, owners))
    }
    fn unmount(&self, volume: &SessionId) -> Result<()> {
        self.faults.around("unmount", || self.real.unmount(volume))
    }
    fn view(&self, volume: &SessionId, at: &ForkPoint) -> Result<TreeView> {
        self.faults.around("view", || self.real.view(volume, at))
    }
    fn base_view(&self, base: &BaseName) -> Result<TreeView> {
        self.faults
            .around("base_view", || self.real.base_view(base))
    }
    fn volume_base(&self, volume: &SessionId) -> Result<BaseName> {
        self.faults
            .around("volume_base", || self.real.volume_base(volume))
    }
    fn usage(&self, volume: &SessionId) -> Result<Usage> {
        self.faults.around_or(
            "usage",
            || self.real.usage(volume),
            || {
                Ok(Usage {
                    used: ByteCount(u64::MAX),
                })
            },
        )
    }
    fn set_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        self.faults
            .around("set_quota", || self.real.set_quota(volume, quota))
    }
    fn space(&self) -> Result<Space> {
        let told = self.space.lock().unwrap().clone();
        self.faults
            .around("space", || told.map_or_else(|| self.real.space(), Ok))
    }
    fn settle(&self) -> Result<()> {
        self.faults.around("settle", || self.real.settle())
    }
    fn close(&self) -> Result<()> {
        self.faults.around("close", || self.real.close())
    }
}
