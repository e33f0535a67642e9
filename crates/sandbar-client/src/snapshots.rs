//! Snapshots, rollback and diff.

use sandbar_core::{
    Change, LaterSnapshots, Quiesce, Result, SessionId, SessionInfo, SnapshotInfo, SnapshotName,
};
use sandbar_proto::v1;

use crate::{Client, client::required};

impl Client {
    /// Creates a snapshot. Without `name` the host picks one.
    pub async fn create_snapshot(
        &self,
        id: &SessionId,
        name: Option<&SnapshotName>,
        quiesce: Quiesce,
    ) -> Result<SnapshotInfo> {
        let request = v1::CreateSnapshotRequest {
            session_id: id.as_str().to_owned(),
            name: name
                .map(|name| name.as_str().to_owned())
                .unwrap_or_default(),
            quiesce: quiesce == Quiesce::Always,
            ..Default::default()
        };
        let answer = self
            .once(self.rpc.create_snapshot(request))
            .await?
            .into_owned();
        required("snapshot", answer.snapshot.into_option())
    }

    pub async fn turn_complete(&self, id: &SessionId) -> Result<SnapshotInfo> {
        let request = v1::TurnCompleteRequest {
            session_id: id.as_str().to_owned(),
            ..Default::default()
        };
        let answer = self
            .once(self.rpc.turn_complete(request))
            .await?
            .into_owned();
        required("snapshot", answer.snapshot.into_option())
    }

    /// Lists the snapshots of a session, oldest first.
    pub async fn list_snapshots(&self, id: &SessionId) -> Result<Vec<SnapshotInfo>> {
        let request = v1::ListSnapshotsRequest {
            session_id: id.as_str().to_owned(),
            ..Default::default()
        };
        let answer = self
            .repeat(|| self.rpc.list_snapshots(request.clone()))
            .await?
            .into_owned();
        answer
            .snapshots
            .into_iter()
            .map(TryInto::try_into)
            .collect()
    }

    pub async fn delete_snapshot(&self, id: &SessionId, name: &SnapshotName) -> Result<()> {
        let request = v1::DeleteSnapshotRequest {
            session_id: id.as_str().to_owned(),
            name: name.as_str().to_owned(),
            ..Default::default()
        };
        self.once(self.rpc.delete_snapshot(request)).await.map(drop)
    }

    pub async fn rollback_session(
        &self,
        id: &SessionId,
        name: &SnapshotName,
        later: LaterSnapshots,
    ) -> Result<SessionInfo> {
        let request = v1::RollbackSessionRequest {
            session_id: id.as_str().to_owned(),
            snapshot: name.as_str().to_owned(),
            keep_later: later == LaterSnapshots::Keep,
            ..Default::default()
        };
        let answer = self
            .once(self.rpc.rollback_session(request))
            .await?
            .into_owned();
        required("session", answer.session.into_option())
    }

    /// Returns the changes from one snapshot to another or to the present state, ordered by path.
    pub async fn diff(
        &self,
        id: &SessionId,
        from: &SnapshotName,
        to: Option<&SnapshotName>,
    ) -> Result<Vec<Change>> {
        let request = v1::DiffRequest {
            session_id: id.as_str().to_owned(),
            from: from.as_str().to_owned(),
            to: to.map(|name| name.as_str().to_owned()).unwrap_or_default(),
            ..Default::default()
        };
        let mut stream = self.once(self.rpc.diff(request)).await?;
        let mut changes = Vec::new();
        while let Some(batch) = self.once(stream.message()).await? {
            for change in batch.to_owned_message().changes {
                changes.push(change.try_into()?);
            }
        }
        Ok(changes)
    }
}
