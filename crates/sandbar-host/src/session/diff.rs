//! What changed in a session.

use sandbar_core::{Change, Result, SessionId, SnapshotName};
use sandbar_storage::{ForkPoint, diff};

use crate::{
    Host,
    verb::{Call, Verb},
};

impl Host {
    /// Files that differ between two snapshots, or between a snapshot and now. Entries of which only the time differs
    /// are left out.
    pub async fn diff(&self, id: &SessionId, from: &SnapshotName, to: Option<&SnapshotName>) -> Result<Vec<Change>> {
        let (id, from, to) = (id.clone(), from.clone(), to.cloned());
        self.run(Call::on(&id, Verb::Diff), move |inner| {
            let session = inner.session(&id)?;
            let _entry = session.gate.enter_shared()?;
            inner.present(&id)?;
            inner.require_snapshot(&id, &from)?;
            if let Some(to) = &to {
                inner.require_snapshot(&id, to)?;
            }
            let from = inner.storage.view(&id, &ForkPoint::Snapshot(from))?;
            let to = inner.storage.view(&id, &to.map_or(ForkPoint::Now, ForkPoint::Snapshot))?;
            let entries = diff::between(&from, &to)?;
            Ok(entries.into_iter().map(|entry| entry.change).filter(|change| !change.aspects.only_time()).collect())
        })
        .await
    }
}
