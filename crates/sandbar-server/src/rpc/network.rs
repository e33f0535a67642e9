//! Network policy of sessions, and secrets.

use connectrpc::{Response, ServiceResult};
use sandbar_core::{Need, SecretName, SessionId};
use sandbar_proto::v1;

use super::{
    errors::{failed, failed_in},
    service::Service,
};
use crate::access::Caller;

pub(super) async fn get_network(
    service: &Service,
    caller: &Caller,
    request: v1::GetNetworkRequest,
) -> ServiceResult<v1::GetNetworkResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let mut status = service
        .host
        .get_network(&id)
        .await
        .map_err(failed_in(&id))?;
    // The traffic token opens the session's ports, so callers with read access do not get it.
    status.traffic_token = status
        .traffic_token
        .filter(|_| caller.grant().may(Need::UseSession(&id)));
    Response::ok(v1::GetNetworkResponse {
        status: v1::NetworkStatus::from(status).into(),
        ..Default::default()
    })
}

pub(super) async fn set_network(
    service: &Service,
    request: v1::SetNetworkRequest,
) -> ServiceResult<v1::SetNetworkResponse> {
    let (id, policy) = request.unpack().map_err(failed)?;
    let status = service
        .host
        .set_network(&id, policy)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::SetNetworkResponse {
        status: v1::NetworkStatus::from(status).into(),
        ..Default::default()
    })
}

pub(super) async fn put_secret(
    service: &Service,
    request: v1::PutSecretRequest,
) -> ServiceResult<v1::PutSecretResponse> {
    let (name, value) = request.unpack().map_err(failed)?;
    let secret = service
        .host
        .put_secret(&name, value)
        .await
        .map_err(failed)?;
    Response::ok(v1::PutSecretResponse {
        secret: v1::Secret::from(secret).into(),
        ..Default::default()
    })
}

pub(super) async fn list_secrets(service: &Service) -> ServiceResult<v1::ListSecretsResponse> {
    let secrets = service.host.list_secrets().await.map_err(failed)?;
    Response::ok(v1::ListSecretsResponse {
        secrets: secrets.into_iter().map(Into::into).collect(),
        ..Default::default()
    })
}

pub(super) async fn delete_secret(
    service: &Service,
    request: v1::DeleteSecretRequest,
) -> ServiceResult<v1::DeleteSecretResponse> {
    let name = SecretName::new(request.name).map_err(|error| failed(error.with_field("name")))?;
    service.host.delete_secret(&name).await.map_err(failed)?;
    Response::ok(v1::DeleteSecretResponse::default())
}
