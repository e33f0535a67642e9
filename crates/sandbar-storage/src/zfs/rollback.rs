//! Going back to a snapshot.

use sandbar_core::{LaterSnapshots, Result, SessionId, SnapshotName};

use super::{ZfsStorage, marks::VolumeMark, store::lock, volumes::NewGeneration};
use crate::errors::snapshot_not_found;

impl ZfsStorage {
    /// Clones the snapshot as the next generation, which is live from that moment on. The mark on it says whether later
    /// snapshots are dropped, so that content and list change in one step; removing what was dropped can wait.
    pub(super) fn roll_back(&self, volume: &SessionId, name: &SnapshotName, later: LaterSnapshots) -> Result<()> {
        let (live, target) = {
            let catalog = self.catalog();
            let live = catalog.live(volume)?;
            let known = catalog.snapshots(volume);
            let target = known.iter().find(|snapshot| snapshot.name == *name).cloned();
            let target =
                target.ok_or_else(|| snapshot_not_found(volume, name, known.iter().map(|snapshot| &snapshot.name)))?;
            (live, target)
        };
        let _surgery = lock(&self.surgery);
        // Not only unmounted: a descriptor somebody still holds on the old tree must not keep the volume from going back.
        self.unmount_for_good(volume)?;
        let refquota = match live.refquota {
            0 => 0,
            // The quota may have been lowered since; a snapshot that is larger can still be gone back to.
            bound => bound.max(self.referenced(&target.full_name)?),
        };
        let cut = (later == LaterSnapshots::Drop).then_some(target.created);
        let mark = VolumeMark::new(live.mark.instance, live.mark.base, cut);
        let new = NewGeneration { volume, origin: target.full_name, mark, refquota };
        self.with_reserve(|| self.make_generation(&new))?;
        if let Err(failure) = self.tidy(volume) {
            // The volume is where it should be; `settle` gives the space back.
            tracing::debug!(%volume, %failure, "leaving an old generation for later");
        }
        self.restore_reserve();
        Ok(())
    }
}
