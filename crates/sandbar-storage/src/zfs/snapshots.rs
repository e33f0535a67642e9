//! Snapshots of a volume.

use sandbar_core::{ByteCount, Result, SessionId, SnapshotName};

use super::{
    ZfsStorage, catalog::dataset_of, command::Fault, listing, marks, marks::SnapshotMark,
    store::lock,
};
use crate::{
    StoredSnapshot,
    errors::{snapshot_exists, volume_not_found},
};

pub(super) fn snapshot(
    store: &ZfsStorage,
    volume: &SessionId,
    name: &SnapshotName,
) -> Result<StoredSnapshot> {
    let live = {
        let catalog = store.catalog();
        let live = catalog.live(volume)?;
        if catalog
            .snapshots(volume)
            .iter()
            .any(|snapshot| snapshot.name == *name)
        {
            return Err(snapshot_exists(volume, name));
        }
        live
    };
    let created = store.moment();
    let mark = SnapshotMark::new(live.mark.instance, created, Some(name.clone()));
    match store.add_snapshot(&live.dataset, mark) {
        Ok(_) => {}
        Err(failure) if failure.fault == Fault::Missing => {
            return Err(volume_not_found(volume));
        }
        Err(failure) => {
            return Err(failure.into_error(format!("take snapshot `{name}` of session `{volume}`")));
        }
    }
    Ok(StoredSnapshot {
        name: name.clone(),
        created: marks::timestamp(created),
        space_used: Some(ByteCount(0)),
    })
}

pub(super) fn snapshots(store: &ZfsStorage, volume: &SessionId) -> Result<Vec<StoredSnapshot>> {
    let visible = {
        let catalog = store.catalog();
        catalog.live(volume)?;
        catalog.snapshots(volume)
    };
    if visible.is_empty() {
        return Ok(Vec::new());
    }
    let mut datasets: Vec<&str> = visible
        .iter()
        .map(|snapshot| dataset_of(&snapshot.full_name))
        .collect();
    datasets.sort_unstable();
    datasets.dedup();
    let rows = listing::read_all(&store.tools, &["used"], &datasets)
        .map_err(|failure| failure.into_error(format!("list snapshots of session `{volume}`")))?;
    let stored = visible.into_iter().map(|snapshot| StoredSnapshot {
        name: snapshot.name,
        created: marks::timestamp(snapshot.created),
        space_used: rows
            .get(&snapshot.full_name)
            .map(|row| ByteCount(row.number("used"))),
    });
    Ok(stored.collect())
}

pub(super) fn delete_snapshot(
    store: &ZfsStorage,
    volume: &SessionId,
    name: &SnapshotName,
) -> Result<()> {
    let _dataset_lock = lock(&store.dataset_lock);
    let found = {
        let catalog = store.catalog();
        catalog.live(volume)?;
        catalog
            .snapshots(volume)
            .into_iter()
            .find(|snapshot| snapshot.name == *name)
    };
    let Some(snapshot) = found else { return Ok(()) };
    let removed = store
        .destroy_views_of(&snapshot.full_name)
        .and_then(|()| store.destroy_snapshot(&snapshot.full_name))
        // An old generation is destroyed with its last snapshot.
        .and_then(|()| store.tidy(volume));
    store.restore_reserve();
    removed.map_err(|failure| {
        failure.into_error(format!("delete snapshot `{name}` of session `{volume}`"))
    })
}
