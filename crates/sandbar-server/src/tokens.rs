//! Access tokens.

use connectrpc::{Response, ServiceResult};
use sandbar_core::TokenName;
use sandbar_proto::v1;

use crate::{failure::failed, service::Service};

impl Service {
    pub(crate) async fn make_token(&self, request: v1::CreateTokenRequest) -> ServiceResult<v1::CreateTokenResponse> {
        let (name, scopes, expires_in) = request.unpack().map_err(failed)?;
        Response::ok(self.host.create_token(&name, scopes, expires_in).await.map_err(failed)?.into())
    }

    pub(crate) async fn all_tokens(&self) -> ServiceResult<v1::ListTokensResponse> {
        let tokens = self.host.list_tokens().await.map_err(failed)?;
        Response::ok(v1::ListTokensResponse {
            tokens: tokens.into_iter().map(Into::into).collect(),
            ..Default::default()
        })
    }

    pub(crate) async fn take_token_back(&self, name: &str) -> ServiceResult<v1::RevokeTokenResponse> {
        let name = TokenName::new(name).map_err(failed)?;
        self.host.revoke_token(&name).await.map_err(failed)?;
        Response::ok(v1::RevokeTokenResponse::default())
    }
}
