//! Access tokens.

use connectrpc::{Response, ServiceResult};
use sandbar_core::TokenName;
use sandbar_proto::v1;

use super::{errors::failed, service::Service};

pub(super) async fn create_token(
    service: &Service,
    request: v1::CreateTokenRequest,
) -> ServiceResult<v1::CreateTokenResponse> {
    let (name, scopes, expires_in) = request.unpack().map_err(failed)?;
    Response::ok(
        service
            .host
            .create_token(&name, scopes, expires_in)
            .await
            .map_err(failed)?
            .into(),
    )
}

pub(super) async fn list_tokens(service: &Service) -> ServiceResult<v1::ListTokensResponse> {
    let tokens = service.host.list_tokens().await.map_err(failed)?;
    Response::ok(v1::ListTokensResponse {
        tokens: tokens.into_iter().map(Into::into).collect(),
        ..Default::default()
    })
}

pub(super) async fn revoke_token(
    service: &Service,
    request: v1::RevokeTokenRequest,
) -> ServiceResult<v1::RevokeTokenResponse> {
    let name = TokenName::new(request.name).map_err(failed)?;
    service.host.revoke_token(&name).await.map_err(failed)?;
    Response::ok(v1::RevokeTokenResponse::default())
}
