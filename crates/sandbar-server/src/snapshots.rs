//! Snapshots, rollback and diff.

use connectrpc::{ConnectError, Response, ServiceResult, ServiceStream};
use sandbar_core::{LaterSnapshots, Quiesce, SessionId, SnapshotName};
use sandbar_proto::v1;

use crate::{
    batches::batches,
    failure::{failed, failed_in},
    service::Service,
};

impl Service {
    pub(crate) async fn end_turn(&self, id: &str) -> ServiceResult<v1::TurnCompleteResponse> {
        let id = SessionId::new(id).map_err(failed)?;
        let snapshot = self.host.turn_complete(&id).await.map_err(failed_in(&id))?;
        Response::ok(v1::TurnCompleteResponse { snapshot: v1::Snapshot::from(snapshot).into(), ..Default::default() })
    }

    pub(crate) async fn take_snapshot(
        &self,
        request: v1::CreateSnapshotRequest,
    ) -> ServiceResult<v1::CreateSnapshotResponse> {
        let id = SessionId::new(request.session_id).map_err(failed)?;
        let name = if request.name.is_empty() { None } else { Some(snapshot_name("name", request.name)?) };
        let quiesce = if request.quiesce { Quiesce::Always } else { Quiesce::WhereNeeded };
        let snapshot = self.host.create_snapshot(&id, name, quiesce).await.map_err(failed_in(&id))?;
        Response::ok(v1::CreateSnapshotResponse { snapshot: v1::Snapshot::from(snapshot).into(), ..Default::default() })
    }

    pub(crate) async fn snapshots_of(&self, id: &str) -> ServiceResult<v1::ListSnapshotsResponse> {
        let id = SessionId::new(id).map_err(failed)?;
        let snapshots = self.host.list_snapshots(&id).await.map_err(failed_in(&id))?;
        Response::ok(v1::ListSnapshotsResponse {
            snapshots: snapshots.into_iter().map(Into::into).collect(),
            ..Default::default()
        })
    }

    pub(crate) async fn remove_snapshot(
        &self,
        request: v1::DeleteSnapshotRequest,
    ) -> ServiceResult<v1::DeleteSnapshotResponse> {
        let id = SessionId::new(request.session_id).map_err(failed)?;
        let name = snapshot_name("name", request.name)?;
        self.host.delete_snapshot(&id, &name).await.map_err(failed_in(&id))?;
        Response::ok(v1::DeleteSnapshotResponse::default())
    }

    pub(crate) async fn go_back(
        &self,
        request: v1::RollbackSessionRequest,
    ) -> ServiceResult<v1::RollbackSessionResponse> {
        let id = SessionId::new(request.session_id).map_err(failed)?;
        let name = snapshot_name("snapshot", request.snapshot)?;
        let later = if request.keep_later { LaterSnapshots::Keep } else { LaterSnapshots::Drop };
        let session = self.host.rollback_session(&id, &name, later).await.map_err(failed_in(&id))?;
        Response::ok(v1::RollbackSessionResponse { session: v1::Session::from(session).into(), ..Default::default() })
    }

    pub(crate) async fn differences(&self, request: v1::DiffRequest) -> ServiceResult<ServiceStream<v1::DiffResponse>> {
        let id = SessionId::new(request.session_id).map_err(failed)?;
        let from = snapshot_name("from", request.from)?;
        let to = if request.to.is_empty() { None } else { Some(snapshot_name("to", request.to)?) };
        let changes = self.host.diff(&id, &from, to.as_ref()).await.map_err(failed_in(&id))?;
        Ok(Response::new(batches(changes, |batch| v1::DiffResponse {
            changes: batch.into_iter().map(Into::into).collect(),
            ..Default::default()
        })))
    }
}

fn snapshot_name(field: &'static str, name: String) -> Result<SnapshotName, ConnectError> {
    SnapshotName::new(name).map_err(|error| failed(error.with_field(field)))
}
