//! Differences between snapshots of a session.

use sandbar_core::{Change, Result, SessionId, SnapshotName};
use sandbar_storage::ForkPoint;

use crate::{
    Host,
    verb::{Call, Verb},
    worker::{Request, block_on},
};

impl Host {
    /// Lists the files that differ between two snapshots, or between a snapshot and now. Omits
    /// entries that differ only in their times.
    pub async fn diff(
        &self,
        id: &SessionId,
        from: &SnapshotName,
        to: Option<&SnapshotName>,
    ) -> Result<Vec<Change>> {
        let (id, from, to) = (id.clone(), from.clone(), to.cloned());
        self.run(Call::on(&id, Verb::Diff), move |engine| {
            let session = engine.session(&id)?;
            let _entry = session.admission.enter_shared()?;
            engine.present(&id)?;
            engine.require_snapshot(&id, &from)?;
            if let Some(to) = &to {
                engine.require_snapshot(&id, to)?;
            }
            let from = engine.storage.view(&id, &ForkPoint::Snapshot(from))?;
            let to = engine
                .storage
                .view(&id, &to.map_or(ForkPoint::Now, ForkPoint::Snapshot))?;
            let request = Request::Diff {
                from: (&from).into(),
                to: (&to).into(),
            };
            block_on(async {
                let (limits, ended) = (&session.walks, &session.streams);
                let job = engine.start_walk(limits, None, request, ended).await?;
                job.changes().await
            })
        })
        .await
    }
}
