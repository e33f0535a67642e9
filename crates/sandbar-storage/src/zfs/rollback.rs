//! Rollback to a snapshot.

use sandbar_core::{LaterSnapshots, Result, SessionId, SnapshotName};

use super::{ZfsStorage, marks::VolumeMark, store::lock, volumes::NewGeneration};
use crate::errors::snapshot_not_found;

/// Clones the snapshot as the next generation, which is live from then on. Its mark says whether
/// later snapshots are dropped, so that content and snapshot list change in one step; destroying
/// the dropped snapshots can wait.
pub(super) fn rollback(
    store: &ZfsStorage,
    volume: &SessionId,
    name: &SnapshotName,
    later: LaterSnapshots,
) -> Result<()> {
    let (live, target) = {
        let catalog = store.catalog();
        let live = catalog.live(volume)?;
        let known = catalog.snapshots(volume);
        let target = known
            .iter()
            .find(|snapshot| snapshot.name == *name)
            .cloned();
        let target = target.ok_or_else(|| {
            snapshot_not_found(volume, name, known.iter().map(|snapshot| &snapshot.name))
        })?;
        (live, target)
    };
    let _dataset_lock = lock(&store.dataset_lock);
    // Detached if busy: a descriptor that is still open on the old tree must not block the
    // rollback.
    store.unmount_for_good(volume)?;
    let refquota = match live.refquota {
        0 => 0,
        // The quota may have been lowered since. A rollback to a larger snapshot still works.
        bound => bound.max(store.referenced(&target.full_name)?),
    };
    let cut = (later == LaterSnapshots::Drop).then_some(target.created);
    let mark = VolumeMark::new(live.mark.instance, live.mark.base, cut);
    let new = NewGeneration {
        volume,
        origin: target.full_name,
        mark,
        refquota,
    };
    store.with_reserve(|| store.make_generation(&new))?;
    if let Err(failure) = store.tidy(volume) {
        // The rollback is complete; `settle` frees the space later.
        tracing::debug!(%volume, %failure, "leaving an old generation for later");
    }
    store.restore_reserve();
    Ok(())
}
