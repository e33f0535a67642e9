//! Access token calls.

use std::time::Duration;

use sandbar_core::{NewToken, Result, TokenInfo, TokenName, TokenScope};
use sandbar_proto::v1;

use crate::Client;

impl Client {
    /// Creates an access token. Its secret is in this response only.
    pub async fn create_token(
        &self,
        name: &TokenName,
        scopes: &[TokenScope],
        expires_in: Option<Duration>,
    ) -> Result<NewToken> {
        let request = v1::CreateTokenRequest::new(name, scopes, expires_in);
        self.once(self.rpc.create_token(request))
            .await?
            .into_owned()
            .try_into()
    }

    /// Lists the access tokens of the host by name.
    pub async fn list_tokens(&self) -> Result<Vec<TokenInfo>> {
        let request = v1::ListTokensRequest::default();
        let answer = self
            .repeat(|| self.rpc.list_tokens(request.clone()))
            .await?
            .into_owned();
        answer.tokens.into_iter().map(TryInto::try_into).collect()
    }

    /// Revokes an access token.
    pub async fn revoke_token(&self, name: &TokenName) -> Result<()> {
        let request = v1::RevokeTokenRequest {
            name: name.as_str().to_owned(),
            ..Default::default()
        };
        self.once(self.rpc.revoke_token(request)).await.map(drop)
    }
}
