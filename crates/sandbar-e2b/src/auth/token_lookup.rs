//! Finding the sandbox of a request that carries its token or a signature, but no sandbox id.
//!
//! A signature is a hash over the request and the token, so it cannot be looked up in an index: the
//! tokens of all sandboxes are tried, about a microsecond each, in one call of the host. As
//! requests are not authenticated at this point, only one search runs at a time, and results are
//! cached.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use http::{HeaderMap, HeaderValue, Method};
use sandbar_core::{ErrorCode, MutexExt as _, Result, SessionId};

use super::{
    Auth, FilesQuery, signed_url,
    token::{access_token, is_equal},
};
use crate::protocol::ACCESS_TOKEN;

/// The cache is cleared when it is full: repeating a search is cheaper than tracking last use.
const MAX_CACHED: usize = 4096;

/// Cache of earlier searches, by hash of the presented token or signature.
#[derive(Debug, Default)]
pub(super) struct TokenLookup {
    /// Held during a search.
    search: tokio::sync::Mutex<()>,
    cache: Mutex<HashMap<blake3::Hash, SessionId>>,
}

impl TokenLookup {
    fn cache(&self) -> MutexGuard<'_, HashMap<blake3::Hash, SessionId>> {
        self.cache.lock_unpoisoned()
    }
}

/// Proof that a client knows the access token of a sandbox.
#[derive(Clone, Debug)]
enum Proof {
    Token(HeaderValue),
    Signature { query: FilesQuery, method: Method },
}

impl Proof {
    fn of(query: &FilesQuery, method: &Method, headers: &HeaderMap) -> Option<Self> {
        let signature = || Self::Signature {
            query: query.clone(),
            method: method.clone(),
        };
        let token = headers.get(&ACCESS_TOKEN).cloned().map(Self::Token);
        token.or_else(|| query.signature.is_some().then(signature))
    }

    /// Returns whether it was made with the access token of the sandbox with this traffic token.
    fn matches(&self, traffic_token: &str) -> bool {
        let token = access_token(traffic_token);
        match self {
            Self::Token(presented) => is_equal(presented.as_bytes(), &token),
            Self::Signature { query, method } => signed_url::is_signed(query, method, &token),
        }
    }

    /// Returns the cache key: a hash, so that the cache contains no secret.
    fn key(&self) -> blake3::Hash {
        match self {
            Self::Token(presented) => blake3::hash(presented.as_bytes()),
            Self::Signature { query, .. } => {
                blake3::hash(query.signature.as_deref().unwrap_or_default().as_bytes())
            }
        }
    }
}

impl Auth {
    /// Returns the sandbox whose access token a request carries or was signed with.
    pub(crate) async fn find_sandbox(
        &self,
        query: &FilesQuery,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Option<SessionId>> {
        let Some(proof) = Proof::of(query, method, headers) else {
            return Ok(None);
        };
        let key = proof.key();
        let cached = self.lookup.cache().get(&key).cloned();
        if let Some(session) = cached
            && self.still_matches(&session, &proof).await?
        {
            return Ok(Some(session));
        }
        let _search = self.lookup.search.lock().await;
        let found = self
            .host
            .session_of_token(move |token| proof.matches(token.reveal()))
            .await?;
        let mut cache = self.lookup.cache();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        match &found {
            Some(session) => cache.insert(key, session.clone()),
            None => cache.remove(&key),
        };
        Ok(found)
    }

    /// Checks a cached result: the session may be gone, or its id reused with another token.
    async fn still_matches(&self, session: &SessionId, proof: &Proof) -> Result<bool> {
        match self.host.port_access(session).await {
            Ok(access) => Ok(proof.matches(access.token.reveal())),
            Err(error) if error.code() == ErrorCode::SessionNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
