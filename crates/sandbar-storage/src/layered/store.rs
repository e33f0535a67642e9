//! The store itself: opening, and the `Storage` contract dispatched to one file per concern.

use std::{
    collections::HashMap,
    os::fd::AsFd,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use sandbar_core::{
    BaseName, ByteCount, Capability, LaterSnapshots, OwnerMap, Result, SessionId, SnapshotName, StorageKind,
};

use super::{
    Layout, Primitives,
    closer::Closer,
    reaper::{Reaper, empty},
};
use crate::{
    BaseRecord, ForkPoint, Mounted, Space, StagedBase, Storage, StorageFacts, StoredSnapshot, TreeView, Usage,
    VolumeSpec,
    overlay::{Overlay, detach, mount_overlay, open_mount_point},
    translation::LiveMount,
};

/// A layered store over one set of primitives.
#[derive(Debug)]
pub(crate) struct LayeredStorage<P: Primitives> {
    pub(super) primitives: Arc<P>,
    pub(super) layout: Layout,
    pub(super) facts: StorageFacts,
    pub(super) reaper: Reaper,
    pub(super) closer: Closer,
    pub(super) mounted: Mutex<HashMap<SessionId, LiveMount>>,
}

impl<P: Primitives> LayeredStorage<P> {
    /// Opens the store at `layout`, and removes what an interrupted call left half-made.
    pub(crate) fn open(primitives: P, layout: Layout) -> Result<Self> {
        empty(&primitives, &layout.staging())?;
        let mut facts = primitives.facts().clone();
        facts.layered = probe_overlay(&layout);
        let primitives = Arc::new(primitives);
        let reaper = Reaper::start(Arc::clone(&primitives), layout.clone())?;
        reaper.wake();
        Ok(Self { primitives, layout, facts, reaper, closer: Closer::start()?, mounted: Mutex::default() })
    }

    pub(super) fn is_layered(&self) -> bool {
        self.facts.layered.is_yes()
    }
}

/// Finds out by trying whether an overlay can be mounted with its upper in this store.
fn probe_overlay(layout: &Layout) -> Capability {
    let probe = layout.stage();
    let attempt = || -> Result<()> {
        let part = |name: &str| -> Result<PathBuf> {
            let path = probe.join(name);
            super::layout::make_directory(&path)?;
            Ok(path)
        };
        let (lower, upper, work, target) = (part("lower")?, part("upper")?, part("work")?, part("merged")?);
        let target_fd = open_mount_point(&target, "/".as_ref())?;
        mount_overlay(Overlay { lower: &lower, upper: &upper, work: &work }, target_fd.as_fd())?;
        drop(target_fd);
        detach(&target)
    };
    let capability = match attempt() {
        Ok(()) => Capability::Yes,
        Err(error) => Capability::no(format!("the kernel refuses an overlay here: {}", error.chain())),
    };
    if let Err(error) = crate::tree_remove::remove_tree(&probe) {
        tracing::warn!(error = error.chain(), "could not remove the overlay probe");
    }
    capability
}

impl<P: Primitives> Storage for LayeredStorage<P> {
    fn kind(&self) -> StorageKind {
        self.primitives.kind()
    }

    fn facts(&self) -> &StorageFacts {
        &self.facts
    }

    fn bases(&self) -> Result<Vec<BaseRecord>> {
        self.list_bases()
    }

    fn base(&self, name: &BaseName) -> Result<BaseRecord> {
        self.read_base(name)
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
        self.list_volumes()
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
        self.volume_view(volume, at)
    }

    fn base_view(&self, base: &BaseName) -> Result<TreeView> {
        self.view_of_base(base)
    }

    fn volume_base(&self, volume: &SessionId) -> Result<BaseName> {
        Ok(self.record(volume)?.base)
    }

    fn usage(&self, volume: &SessionId) -> Result<Usage> {
        self.record(volume)?;
        Ok(Usage { used: self.primitives.usage(&self.layout.live(volume))? })
    }

    fn set_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        self.change_quota(volume, quota)
    }

    fn space(&self) -> Result<Space> {
        self.primitives.space()
    }

    fn settle(&self) -> Result<()> {
        self.reaper.settle()
    }

    fn close(&self) -> Result<()> {
        self.unmount_all()?;
        self.closer.stop();
        self.reaper.stop();
        self.primitives.close()
    }
}
