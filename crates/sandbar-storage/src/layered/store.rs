//! The store: opening it, and the `Storage` trait, with one module per concern.

use std::{
    collections::HashMap,
    os::fd::AsFd,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use sandbar_core::{
    BaseName, ByteCount, Capability, LaterSnapshots, OwnerMap, Result, SessionId, SnapshotName,
    StorageKind,
};
use sandbar_tree::remove_tree;

use super::{
    Layout, Primitives, bases,
    closer::Closer,
    mounts,
    reaper::{Reaper, empty},
    snapshots, volumes,
};
use crate::{
    BaseRecord, ForkPoint, Mounted, Space, StagedBase, Storage, StorageFacts, StoredSnapshot,
    TreeView, Usage, VolumeSpec,
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
    /// Opens the store at `layout`, and removes what interrupted calls left in staging.
    pub(crate) fn open(primitives: P, layout: Layout) -> Result<Self> {
        empty(&primitives, &layout.staging())?;
        let mut facts = primitives.facts().clone();
        facts.layered = probe_overlay(&layout);
        let primitives = Arc::new(primitives);
        let reaper = Reaper::start(Arc::clone(&primitives), layout.clone())?;
        reaper.wake();
        Ok(Self {
            primitives,
            layout,
            facts,
            reaper,
            closer: Closer::start()?,
            mounted: Mutex::default(),
        })
    }

    pub(super) fn is_layered(&self) -> bool {
        self.facts.layered.is_yes()
    }
}

/// Probes whether an overlay with its upper in this store can be mounted.
fn probe_overlay(layout: &Layout) -> Capability {
    let probe = layout.stage();
    let attempt = || -> Result<()> {
        let part = |name: &str| -> Result<PathBuf> {
            let path = probe.join(name);
            super::layout::make_directory(&path)?;
            Ok(path)
        };
        let (lower, upper, work, target) = (
            part("lower")?,
            part("upper")?,
            part("work")?,
            part("merged")?,
        );
        let target_fd = open_mount_point(&target, "/".as_ref())?;
        mount_overlay(
            Overlay {
                lower: &lower,
                upper: &upper,
                work: &work,
            },
            target_fd.as_fd(),
        )?;
        drop(target_fd);
        detach(&target)
    };
    let capability = match attempt() {
        Ok(()) => Capability::Yes,
        Err(error) => Capability::no(format!(
            "the kernel refuses an overlay here: {}",
            error.chain()
        )),
    };
    if let Err(error) = remove_tree(&probe) {
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
        bases::bases(self)
    }

    fn base(&self, name: &BaseName) -> Result<BaseRecord> {
        bases::base(self, name)
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
        volumes::volumes(self)
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
        snapshots::rollback(self, volume, name, later)
    }

    fn mount_as(&self, volume: &SessionId, owners: Option<&OwnerMap>) -> Result<Mounted> {
        mounts::mount_as(self, volume, owners)
    }

    fn unmount(&self, volume: &SessionId) -> Result<()> {
        mounts::unmount(self, volume)
    }

    fn view(&self, volume: &SessionId, at: &ForkPoint) -> Result<TreeView> {
        snapshots::view(self, volume, at)
    }

    fn base_view(&self, base: &BaseName) -> Result<TreeView> {
        bases::base_view(self, base)
    }

    fn volume_base(&self, volume: &SessionId) -> Result<BaseName> {
        Ok(self.record(volume)?.base)
    }

    fn usage(&self, volume: &SessionId) -> Result<Usage> {
        self.record(volume)?;
        Ok(Usage {
            used: self.primitives.usage(&self.layout.live(volume))?,
        })
    }

    fn set_quota(&self, volume: &SessionId, quota: Option<ByteCount>) -> Result<()> {
        volumes::set_quota(self, volume, quota)
    }

    fn space(&self) -> Result<Space> {
        self.primitives.space()
    }

    fn settle(&self) -> Result<()> {
        self.reaper.settle()
    }

    fn close_to_others(&self) -> Result<()> {
        self.primitives.close_to_others()?;
        self.layout.close_to_others()
    }

    fn close(&self) -> Result<()> {
        mounts::unmount_all(self)?;
        self.closer.stop();
        self.reaper.stop();
        self.primitives.close()
    }
}
