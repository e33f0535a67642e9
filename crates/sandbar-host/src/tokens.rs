//! Access tokens of this host, beside the one in its data directory. The secret of a token is
//! returned once and never stored.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use blake3::Hash;
use jiff::Timestamp;
use sandbar_core::{
    AccessToken, Error, ErrorCode, Grant, NewToken, Result, SessionId, TokenInfo, TokenName,
    TokenScope,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Host,
    audit::Event,
    state::StateStore,
    verb::{Call, Verb},
};

impl Host {
    /// Creates a token. Its secret is in the response and nowhere else.
    ///
    /// Fails with `TokenExists`, or with `SessionNotFound` if a scope names an unknown session.
    pub async fn create_token(
        &self,
        name: &TokenName,
        scopes: Vec<TokenScope>,
        expires_in: Option<Duration>,
    ) -> Result<NewToken> {
        let name = name.clone();
        self.run(Call::of(Verb::CreateToken), move |engine| {
            let made =
                engine
                    .tokens
                    .create(&engine.state, name, &Grant::new(scopes)?, expires_in)?;
            for scope in &made.info.scopes {
                if let TokenScope::Session(id) = scope {
                    let event = Event::new(id, Verb::CreateToken.as_str());
                    engine.record_event(event.with("token", made.info.name.as_str()));
                }
            }
            Ok(made)
        })
        .await
    }

    /// Lists the tokens, expired ones included, by name.
    pub async fn list_tokens(&self) -> Result<Vec<TokenInfo>> {
        self.run(Call::of(Verb::ListTokens), |engine| {
            Ok(engine.tokens.list())
        })
        .await
    }

    /// Revokes a token, for later calls and for those in progress.
    pub async fn revoke_token(&self, name: &TokenName) -> Result<()> {
        let name = name.clone();
        self.run(Call::of(Verb::RevokeToken), move |engine| {
            engine.tokens.revoke(&engine.state, &name)
        })
        .await
    }

    /// Looks up a presented token in memory. `None` if it is unknown, `Unauthenticated` if it has
    /// expired.
    pub fn known_token(&self, shown: &[u8]) -> Result<Option<KnownToken>> {
        self.engine().tokens.find(shown)
    }

    /// Whether this is the secret of a token, even an expired one.
    pub fn is_token(&self, shown: &[u8]) -> bool {
        self.engine().tokens.knows(shown)
    }
}

/// A valid token that was presented, and its grant.
#[derive(Clone, Debug)]
pub struct KnownToken {
    pub name: TokenName,
    pub grant: Grant,
    pub expires: Option<Timestamp>,
    /// Cancelled when the token is revoked.
    pub revoked: CancellationToken,
}

/// The tokens of a host: a copy in memory of those in the state database, for every call.
#[derive(Debug, Default)]
pub(crate) struct TokenVault {
    /// By hash. Hashes are compared in constant time, and the steps of a lookup depend on the hash
    /// of the presented token, which reveals nothing about a stored secret.
    kept: RwLock<HashMap<Hash, Kept>>,
    /// Serialises changes, so that memory and database change in the same order.
    changing: Mutex<()>,
}

#[derive(Debug)]
struct Kept {
    token: KnownToken,
    created: Timestamp,
    /// Milliseconds since 1970; 0 is never.
    last_used: AtomicI64,
}

impl Kept {
    fn info(&self) -> TokenInfo {
        let last_used = self.last_used.load(Ordering::Relaxed);
        TokenInfo {
            name: self.token.name.clone(),
            scopes: self.token.grant.scopes().to_vec(),
            created: self.created,
            expires: self.token.expires,
            last_used: Timestamp::from_millisecond(last_used)
                .ok()
                .filter(|_| last_used != 0),
        }
    }
}

impl TokenVault {
    pub(crate) fn load(&self, state: &StateStore) -> Result<()> {
        let mut all = HashMap::new();
        for (info, hash) in state.tokens()? {
            all.insert(hash, keep(&info)?);
        }
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = all;
        Ok(())
    }

    fn create(
        &self,
        state: &StateStore,
        name: TokenName,
        grant: &Grant,
        expires_in: Option<Duration>,
    ) -> Result<NewToken> {
        let created = Timestamp::now();
        let expires = expires_in.map(|after| moment(created, after)).transpose()?;
        let info = TokenInfo {
            name,
            scopes: grant.scopes().to_vec(),
            created,
            expires,
            last_used: None,
        };
        let secret = AccessToken::random()?;
        let hash = blake3::hash(secret.reveal().as_bytes());
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        state.insert_token(&info, hash)?;
        self.kept
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(hash, keep(&info)?);
        tracing::info!(token = %info.name, "created a token");
        Ok(NewToken { info, secret })
    }

    fn list(&self) -> Vec<TokenInfo> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<TokenInfo> = kept.values().map(Kept::info).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn revoke(&self, state: &StateStore, name: &TokenName) -> Result<()> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.delete_token(name)? {
            return Err(Error::new(
                ErrorCode::TokenNotFound,
                format!("token `{name}` does not exist"),
            )
            .with_field("name")
            .with_hint("list them with `sandbar token ls`"));
        }
        self.kept
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, kept| {
                let stays = kept.token.name != *name;
                if !stays {
                    kept.token.revoked.cancel();
                }
                stays
            });
        tracing::info!(token = %name, "revoked a token");
        Ok(())
    }

    /// Removes the scopes for a destroyed session; the state database has done so. Cancels no call:
    /// calls on the session end with it, and the destroy call itself must return its response.
    pub(crate) fn forget_session(&self, id: &SessionId) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = TokenScope::Session(id.clone());
        self.kept
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, kept| {
                let scopes = kept.token.grant.scopes();
                if !scopes.contains(&gone) {
                    return true;
                }
                let rest = Grant::new(scopes.iter().filter(|scope| **scope != gone).cloned());
                rest.map(|rest| kept.token.grant = rest).is_ok()
            });
    }

    fn find(&self, shown: &[u8]) -> Result<Option<KnownToken>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = kept.get(&blake3::hash(shown)) else {
            return Ok(None);
        };
        let now = Timestamp::now();
        if kept.token.expires.is_some_and(|expires| expires <= now) {
            return Err(Error::new(
                ErrorCode::Unauthenticated,
                format!("access token `{}` has expired", kept.token.name),
            )
            .with_hint("create a new one with `sandbar token new`"));
        }
        kept.last_used
            .store(now.as_millisecond(), Ordering::Relaxed);
        Ok(Some(kept.token.clone()))
    }

    fn knows(&self, shown: &[u8]) -> bool {
        self.kept
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(&blake3::hash(shown))
    }
}

fn keep(info: &TokenInfo) -> Result<Kept> {
    Ok(Kept {
        token: KnownToken {
            name: info.name.clone(),
            grant: Grant::new(info.scopes.iter().cloned())?,
            expires: info.expires,
            revoked: CancellationToken::new(),
        },
        created: info.created,
        last_used: AtomicI64::new(0),
    })
}

fn moment(now: Timestamp, after: Duration) -> Result<Timestamp> {
    let refuse = |why: &str| {
        Error::invalid("expires_in", format!("token lifetime is {why}")).with_hint(
            "use a duration such as `12h` or `30d`, or omit it for a token that does not expire",
        )
    };
    if after.is_zero() {
        return Err(refuse("zero"));
    }
    now.checked_add(after)
        .map_err(|source| refuse("too long").with_source(source))
}
