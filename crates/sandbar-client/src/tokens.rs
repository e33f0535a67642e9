//! Access tokens.

use std::time::Duration;

use sandbar_core::{NewToken, Result, TokenInfo, TokenName, TokenScope};
use sandbar_proto::v1;

use crate::Client;

impl Client {
    /// Makes an access token. Its secret is in the answer, and told never again.
    pub async fn create_token(
        &self,
        name: &TokenName,
        scopes: &[TokenScope],
        expires_in: Option<Duration>,
    ) -> Result<NewToken> {
        let request = v1::CreateTokenRequest::new(name, scopes, expires_in);
        self.once(self.rpc.create_token(request)).await?.into_owned().try_into()
    }

    /// The access tokens of the host, by name.
    pub async fn list_tokens(&self) -> Result<Vec<TokenInfo>> {
        let request = v1::ListTokensRequest::default();
        let answer = self.repeat(|| self.rpc.list_tokens(request.clone())).await?.into_owned();
        answer.tokens.into_iter().map(TryInto::try_into).collect()
    }

    /// Takes an access token back.
    pub async fn revoke_token(&self, name: &TokenName) -> Result<()> {
        let request = v1::RevokeTokenRequest { name: name.as_str().to_owned(), ..Default::default() };
        self.once(self.rpc.revoke_token(request)).await.map(drop)
    }
}
