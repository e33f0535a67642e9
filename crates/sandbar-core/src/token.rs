//! Access tokens: names, scopes and secrets.

use std::{fmt, str::FromStr, sync::Arc};

use jiff::Timestamp;

use crate::{Error, Result, SessionId};

crate::id::name_type!(
    /// Name of an access token. It is the actor in the audit log.
    TokenName, "name", "token name", 128
);

/// Scope of a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TokenScope {
    /// Everything.
    Admin,
    /// Read-only access to everything except secrets and tokens.
    Read,
    /// Full access to one session.
    Session(SessionId),
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin => f.write_str("admin"),
            Self::Read => f.write_str("read"),
            Self::Session(id) => write!(f, "session:{id}"),
        }
    }
}

impl FromStr for TokenScope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "admin" => Ok(Self::Admin),
            None if text == "read" => Ok(Self::Read),
            Some(("session", id)) => SessionId::new(id)
                .map(Self::Session)
                .map_err(|error| error.with_field("scopes")),
            _ => Err(Error::invalid(
                "scopes",
                format!("scope `{}` is unknown", text.escape_debug()),
            )
            .with_hint("use `admin`, `read` or `session:ID`")),
        }
    }
}

/// Permission that a call requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// Any token: the call reveals nothing about sessions.
    AnyToken,
    /// Read access to the whole host.
    Read,
    /// Read access to one session.
    ReadSession(&'a SessionId),
    /// Full access to one session.
    UseSession(&'a SessionId),
    /// Administration.
    Admin,
}

impl fmt::Display for Need<'_> {
    /// Writes the scopes that suffice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyToken => f.write_str("any scope"),
            Self::Read => f.write_str("scope `read` or `admin`"),
            Self::ReadSession(id) => write!(f, "scope `session:{id}`, `read` or `admin`"),
            Self::UseSession(id) => write!(f, "scope `session:{id}` or `admin`"),
            Self::Admin => f.write_str("scope `admin`"),
        }
    }
}

/// Scopes of a caller's token, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant(Arc<[TokenScope]>);

impl Grant {
    /// Returns the grant of these scopes, without duplicates.
    pub fn new(scopes: impl IntoIterator<Item = TokenScope>) -> Result<Self> {
        let mut scopes: Vec<TokenScope> = scopes.into_iter().collect();
        scopes.sort();
        scopes.dedup();
        if scopes.is_empty() {
            return Err(Error::invalid("scopes", "the token has no scope")
                .with_hint("give at least one scope: `admin`, `read` or `session:ID`"));
        }
        Ok(Self(scopes.into()))
    }

    /// Everything.
    pub fn admin() -> Self {
        Self([TokenScope::Admin].into())
    }

    pub fn scopes(&self) -> &[TokenScope] {
        &self.0
    }

    /// Whether these scopes suffice for a call.
    pub fn may(&self, need: Need<'_>) -> bool {
        self.0.iter().any(|scope| match (scope, need) {
            (TokenScope::Admin, _)
            | (_, Need::AnyToken)
            | (TokenScope::Read, Need::Read | Need::ReadSession(_)) => true,
            (TokenScope::Session(own), Need::ReadSession(id) | Need::UseSession(id)) => own == id,
            _ => false,
        })
    }

    /// Returns the sessions that it is limited to; `None` is all.
    pub fn sessions(&self) -> Option<Vec<SessionId>> {
        let own = |scope: &TokenScope| match scope {
            TokenScope::Session(id) => Some(id.clone()),
            TokenScope::Admin | TokenScope::Read => None,
        };
        if self.may(Need::Read) {
            None
        } else {
            Some(self.0.iter().filter_map(own).collect())
        }
    }
}

/// Description of a token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    pub name: TokenName,
    pub scopes: Vec<TokenScope>,
    pub created: Timestamp,
    /// Time from which it is rejected.
    pub expires: Option<Timestamp>,
    /// Time of its last use since the host started.
    pub last_used: Option<Timestamp>,
}

/// A new token. Its secret is returned only here.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub info: TokenInfo,
    pub secret: AccessToken,
}

/// Secret of a token, as sent by clients.
#[derive(Clone)]
pub struct AccessToken(String);

impl AccessToken {
    const MIN_BYTES: usize = 16;

    /// Returns a token with a given secret.
    pub fn new(token: impl Into<String>) -> Result<Self> {
        let token = token.into();
        if token.len() < Self::MIN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid(
                "token",
                "the access token is too short, or has spaces or special characters",
            )
            .with_hint(format!(
                "use at least {} letters, digits or signs without spaces",
                Self::MIN_BYTES
            )));
        }
        Ok(Self(token))
    }

    /// Returns a token of 256 random bits.
    pub fn random() -> Result<Self> {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).map_err(|source| {
            Error::internal("could not read random bytes for an access token").with_source(source)
        })?;
        Ok(Self(
            bytes.iter().fold(String::from("sb_"), |text, byte| {
                text + &format!("{byte:02x}")
            }),
        ))
    }

    /// Returns the secret, for clients.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(scopes: &[&str]) -> Grant {
        Grant::new(scopes.iter().map(|scope| scope.parse().unwrap())).unwrap()
    }

    #[test]
    fn scopes_round_trip() {
        for text in ["admin", "read", "session:build-42"] {
            assert_eq!(text.parse::<TokenScope>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "Admin",
            "admin:x",
            "session",
            "session:",
            "session:a/b",
            "read ",
            "write",
        ] {
            let error = bad.parse::<TokenScope>().unwrap_err();
            assert_eq!(error.field(), Some("scopes"), "{bad:?}");
            assert!(error.hint().is_some(), "{bad:?}");
        }
    }

    #[test]
    fn scope_grants_its_permissions_only() {
        let (own, other) = ("a".parse().unwrap(), "b".parse().unwrap());
        let needs = [
            Need::AnyToken,
            Need::Read,
            Need::ReadSession(&own),
            Need::UseSession(&own),
            Need::ReadSession(&other),
            Need::UseSession(&other),
            Need::Admin,
        ];
        for (scopes, expected) in [
            (&["admin"][..], [true; 7]),
            (&["read"], [true, true, true, false, true, false, false]),
            (
                &["session:a"],
                [true, false, true, true, false, false, false],
            ),
            (
                &["session:a", "session:b"],
                [true, false, true, true, true, true, false],
            ),
            (
                &["read", "session:a"],
                [true, true, true, true, true, false, false],
            ),
        ] {
            assert_eq!(
                needs.map(|need| grant(scopes).may(need)),
                expected,
                "{scopes:?}"
            );
        }
    }

    #[test]
    fn grant_has_distinct_scopes_and_is_not_empty() {
        assert_eq!(
            grant(&["read", "admin", "read"]).scopes(),
            [TokenScope::Admin, TokenScope::Read]
        );
        assert_eq!(Grant::new([]).unwrap_err().field(), Some("scopes"));
        assert_eq!(
            grant(&["session:a"]).sessions().unwrap(),
            ["a".parse().unwrap()]
        );
        assert_eq!(grant(&["session:a", "read"]).sessions(), None);
    }

    #[test]
    fn short_or_unprintable_token_is_refused() {
        for bad in [
            "",
            "short",
            "has a space in the middle",
            "übermäßig-lang-aber-nicht-ascii",
        ] {
            assert_eq!(
                AccessToken::new(bad).unwrap_err().field(),
                Some("token"),
                "{bad}"
            );
        }
        let token = AccessToken::random().unwrap();
        AccessToken::new(token.reveal()).unwrap();
        assert!(!format!("{token:?}").contains(token.reveal()));
    }
}
