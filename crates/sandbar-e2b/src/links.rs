//! Links to files that do not say which sandbox they are for.
//!
//! A signature is a hash of what is asked for and of the token of the sandbox, so there is no index it could be looked up
//! in: tokens are tried one after another, a microsecond each and all of them in one call of the host. Anybody may send
//! what is no link, so one search goes on at a time, and what was found is remembered.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use http::{HeaderMap, HeaderValue, Method};
use sandbar_core::{ErrorCode, Result, SessionId};

use crate::{
    envd::files::{self, FilesQuery},
    keys::{envd_token, is_same},
    surface::Surface,
    visitor::ACCESS_TOKEN,
};

/// Beyond this everything is forgotten: finding it again is cheaper than an order.
const MOST_REMEMBERED: usize = 4096;

/// Which sandbox was meant by what.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Held by whoever searches.
    search: tokio::sync::Mutex<()>,
    found: Mutex<HashMap<blake3::Hash, SessionId>>,
}

impl Links {
    fn found(&self) -> MutexGuard<'_, HashMap<blake3::Hash, SessionId>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What shows that somebody has the token of a sandbox.
#[derive(Clone, Debug)]
enum Proof {
    Token(HeaderValue),
    Signature { query: FilesQuery, method: Method },
}

impl Proof {
    fn of(query: &FilesQuery, method: &Method, headers: &HeaderMap) -> Option<Self> {
        let signature = || Self::Signature { query: query.clone(), method: method.clone() };
        let shown = headers.get(&ACCESS_TOKEN).cloned().map(Self::Token);
        shown.or_else(|| query.signature.is_some().then(signature))
    }

    /// Whether it was made with the token of the sandbox that has this traffic token.
    fn fits(&self, traffic_token: &str) -> bool {
        let token = envd_token(traffic_token);
        match self {
            Self::Token(shown) => is_same(shown.as_bytes(), &token),
            Self::Signature { query, method } => files::is_signed(query, method, &token),
        }
    }

    /// What it is remembered by: no secret.
    fn key(&self) -> blake3::Hash {
        match self {
            Self::Token(shown) => blake3::hash(shown.as_bytes()),
            Self::Signature { query, .. } => blake3::hash(query.signature.as_deref().unwrap_or_default().as_bytes()),
        }
    }
}

impl Surface {
    /// The sandbox whose token a request carries, or was signed with.
    pub(crate) async fn signer(
        &self,
        query: &FilesQuery,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Option<SessionId>> {
        let Some(proof) = Proof::of(query, method, headers) else { return Ok(None) };
        let key = proof.key();
        let known = self.links.found().get(&key).cloned();
        if let Some(session) = known
            && self.is_signer(&session, &proof).await?
        {
            return Ok(Some(session));
        }
        let _turn = self.links.search.lock().await;
        let found = self.host.session_of_token(move |token| proof.fits(token.reveal())).await?;
        let mut remembered = self.links.found();
        if remembered.len() >= MOST_REMEMBERED {
            remembered.clear();
        }
        match &found {
            Some(session) => remembered.insert(key, session.clone()),
            None => remembered.remove(&key),
        };
        Ok(found)
    }

    /// Whether it still is: another session may have its name now.
    async fn is_signer(&self, session: &SessionId, proof: &Proof) -> Result<bool> {
        match self.host.port_access(session).await {
            Ok(access) => Ok(proof.fits(access.token.reveal())),
            Err(error) if error.code() == ErrorCode::SessionNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
