//! Snapshots, rollback and diff.

use connectrpc::{ConnectError, Response, ServiceResult, ServiceStream};
use sandbar_core::{LaterSnapshots, Quiesce, SessionId, SnapshotName};
use sandbar_proto::v1;

use super::{
    batches::batches,
    errors::{failed, failed_in},
    service::Service,
};

pub(super) async fn turn_complete(
    service: &Service,
    request: v1::TurnCompleteRequest,
) -> ServiceResult<v1::TurnCompleteResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let snapshot = service
        .host
        .turn_complete(&id)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::TurnCompleteResponse {
        snapshot: v1::Snapshot::from(snapshot).into(),
        ..Default::default()
    })
}

pub(super) async fn create_snapshot(
    service: &Service,
    request: v1::CreateSnapshotRequest,
) -> ServiceResult<v1::CreateSnapshotResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let name = if request.name.is_empty() {
        None
    } else {
        Some(snapshot_name("name", request.name)?)
    };
    let quiesce = if request.quiesce {
        Quiesce::Always
    } else {
        Quiesce::WhereNeeded
    };
    let snapshot = service
        .host
        .create_snapshot(&id, name, quiesce)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::CreateSnapshotResponse {
        snapshot: v1::Snapshot::from(snapshot).into(),
        ..Default::default()
    })
}

pub(super) async fn list_snapshots(
    service: &Service,
    request: v1::ListSnapshotsRequest,
) -> ServiceResult<v1::ListSnapshotsResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let snapshots = service
        .host
        .list_snapshots(&id)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::ListSnapshotsResponse {
        snapshots: snapshots.into_iter().map(Into::into).collect(),
        ..Default::default()
    })
}

pub(super) async fn delete_snapshot(
    service: &Service,
    request: v1::DeleteSnapshotRequest,
) -> ServiceResult<v1::DeleteSnapshotResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let name = snapshot_name("name", request.name)?;
    service
        .host
        .delete_snapshot(&id, &name)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::DeleteSnapshotResponse::default())
}

pub(super) async fn rollback_session(
    service: &Service,
    request: v1::RollbackSessionRequest,
) -> ServiceResult<v1::RollbackSessionResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let name = snapshot_name("snapshot", request.snapshot)?;
    let later = if request.keep_later {
        LaterSnapshots::Keep
    } else {
        LaterSnapshots::Drop
    };
    let session = service
        .host
        .rollback_session(&id, &name, later)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::RollbackSessionResponse {
        session: v1::Session::from(session).into(),
        ..Default::default()
    })
}

pub(super) async fn diff(
    service: &Service,
    request: v1::DiffRequest,
) -> ServiceResult<ServiceStream<v1::DiffResponse>> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let from = snapshot_name("from", request.from)?;
    let to = if request.to.is_empty() {
        None
    } else {
        Some(snapshot_name("to", request.to)?)
    };
    let changes = service
        .host
        .diff(&id, &from, to.as_ref())
        .await
        .map_err(failed_in(&id))?;
    Ok(Response::new(batches(changes, |batch| v1::DiffResponse {
        changes: batch.into_iter().map(Into::into).collect(),
        ..Default::default()
    })))
}

fn snapshot_name(field: &'static str, name: String) -> Result<SnapshotName, ConnectError> {
    SnapshotName::new(name).map_err(|error| failed(error.with_field(field)))
}
