//! Presentation of access tokens.

use sandbar_core::{NewToken, TokenInfo};
use serde::Serialize;

/// JSON of a token, without its secret.
#[derive(Debug, Serialize)]
pub(crate) struct TokenView<'a> {
    name: &'a str,
    scopes: Vec<String>,
    created: String,
    expires: Option<String>,
    last_used: Option<String>,
}

impl<'a> From<&'a TokenInfo> for TokenView<'a> {
    fn from(token: &'a TokenInfo) -> Self {
        Self {
            name: token.name.as_str(),
            scopes: token.scopes.iter().map(ToString::to_string).collect(),
            created: token.created.to_string(),
            expires: token.expires.map(|moment| moment.to_string()),
            last_used: token.last_used.map(|moment| moment.to_string()),
        }
    }
}

/// JSON of a new token with its secret.
#[derive(Debug, Serialize)]
pub(crate) struct NewTokenView<'a> {
    token: TokenView<'a>,
    secret: &'a str,
}

impl<'a> From<&'a NewToken> for NewTokenView<'a> {
    fn from(made: &'a NewToken) -> Self {
        Self {
            token: TokenView::from(&made.info),
            secret: made.secret.reveal(),
        }
    }
}
