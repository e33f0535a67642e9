//! Access token messages.

use std::time::Duration;

use sandbar_core::{AccessToken, Error, NewToken, Result, TokenInfo, TokenName, TokenScope};

use super::scalar::{
    missing, pack_duration, pack_time, unpack_duration, unpack_optional_time, unpack_time,
};
use crate::v1;

impl From<TokenInfo> for v1::Token {
    fn from(token: TokenInfo) -> Self {
        Self {
            name: token.name.into(),
            scopes: token.scopes.iter().map(ToString::to_string).collect(),
            created: pack_time(token.created),
            expires: token.expires.map(pack_time).unwrap_or_default(),
            last_used: token.last_used.map(pack_time).unwrap_or_default(),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::Token> for TokenInfo {
    type Error = Error;

    fn try_from(wire: v1::Token) -> Result<Self> {
        Ok(Self {
            name: TokenName::new(wire.name)?,
            scopes: unpack_scopes(&wire.scopes)?,
            created: unpack_time("created", wire.created)?,
            expires: unpack_optional_time("expires", wire.expires)?,
            last_used: unpack_optional_time("last_used", wire.last_used)?,
        })
    }
}

impl v1::CreateTokenRequest {
    pub fn new(name: &TokenName, scopes: &[TokenScope], expires_in: Option<Duration>) -> Self {
        Self {
            name: name.as_str().to_owned(),
            scopes: scopes.iter().map(ToString::to_string).collect(),
            expires_in: expires_in.map(pack_duration).unwrap_or_default(),
            ..Default::default()
        }
    }

    /// Returns name, scopes and lifetime of the token.
    pub fn unpack(self) -> Result<(TokenName, Vec<TokenScope>, Option<Duration>)> {
        let expires_in = unpack_duration("expires_in", self.expires_in)?;
        Ok((
            TokenName::new(self.name)?,
            unpack_scopes(&self.scopes)?,
            expires_in,
        ))
    }
}

impl From<NewToken> for v1::CreateTokenResponse {
    fn from(token: NewToken) -> Self {
        Self {
            token: v1::Token::from(token.info).into(),
            secret: token.secret.reveal().to_owned(),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::CreateTokenResponse> for NewToken {
    type Error = Error;

    fn try_from(wire: v1::CreateTokenResponse) -> Result<Self> {
        let info = wire
            .token
            .into_option()
            .ok_or_else(|| missing("token"))?
            .try_into()?;
        Ok(Self {
            info,
            secret: AccessToken::new(wire.secret)?,
        })
    }
}

fn unpack_scopes(scopes: &[String]) -> Result<Vec<TokenScope>> {
    scopes.iter().map(|scope| scope.parse()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_survives_the_wire() {
        let info = TokenInfo {
            name: "ci".parse().unwrap(),
            scopes: vec![TokenScope::Read, "session:box".parse().unwrap()],
            created: jiff::Timestamp::from_second(5).unwrap(),
            expires: jiff::Timestamp::from_second(6).ok(),
            last_used: None,
        };
        assert_eq!(
            TokenInfo::try_from(v1::Token::from(info.clone())).unwrap(),
            info
        );
        let request =
            v1::CreateTokenRequest::new(&info.name, &info.scopes, Some(Duration::from_hours(1)));
        assert_eq!(
            request.unpack().unwrap(),
            (info.name, info.scopes, Some(Duration::from_hours(1)))
        );
    }

    #[test]
    fn invalid_token_request_names_the_field() {
        let request = |name: &str, scope: &str| v1::CreateTokenRequest {
            name: name.into(),
            scopes: vec![scope.into()],
            ..Default::default()
        };
        assert_eq!(
            request("a/b", "read").unpack().unwrap_err().field(),
            Some("name")
        );
        assert_eq!(
            request("a", "write").unpack().unwrap_err().field(),
            Some("scopes")
        );
    }
}
