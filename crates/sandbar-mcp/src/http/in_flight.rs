//! Registry of running requests, so that a cancel notification in another POST finds them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
};

use http::{HeaderMap, header};
use sandbar_core::MutexExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call_id::McpSession;

/// Identity of a request: caller, MCP session and request id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Hash of the caller's `authorization`, so that the token itself is not kept.
    caller: Option<blake3::Hash>,
    mcp_session: McpSession,
    /// Hash of the request id, which may be long.
    id: blake3::Hash,
}

impl Key {
    /// Returns `None` for a message without an id or session, which ends only when its sender
    /// disconnects.
    pub(super) fn new(
        headers: &HeaderMap,
        mcp_session: Option<&McpSession>,
        id: Option<&Value>,
    ) -> Option<Self> {
        let caller = headers
            .get(header::AUTHORIZATION)
            .map(|field| blake3::hash(field.as_bytes()));
        Some(Self {
            caller,
            mcp_session: mcp_session?.clone(),
            id: blake3::hash(id?.to_string().as_bytes()),
        })
    }
}

/// Running requests.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Key, Weak<Request>>>>);

/// Running request, shared by its retries. Dropping the last one removes it from the registry.
#[derive(Debug)]
pub(super) struct Request {
    key: Key,
    cancelled: CancellationToken,
    all: InFlight,
}

impl InFlight {
    pub(super) fn register(&self, key: Key) -> Arc<Request> {
        let mut running = self.lock();
        if let Some(same) = running.get(&key).and_then(Weak::upgrade) {
            return same;
        }
        let request = Arc::new(Request {
            key: key.clone(),
            cancelled: CancellationToken::new(),
            all: self.clone(),
        });
        running.insert(key, Arc::downgrade(&request));
        request
    }

    /// Cancels a request if it is running.
    pub(super) fn cancel(&self, key: &Key) {
        // Dropped after the lock is released: `drop` takes the lock again.
        let found = self.lock().get(key).and_then(Weak::upgrade);
        if let Some(request) = found {
            request.cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<Request>>> {
        self.0.lock_unpoisoned()
    }
}

impl Request {
    pub(super) fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut running = self.all.lock();
        // A retry may have registered the key again in between.
        if running
            .get(&self.key)
            .is_some_and(|entry| entry.strong_count() == 0)
        {
            running.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cancel_ends_only_the_request_with_its_key() {
        let in_flight = InFlight::default();
        let (here, there) = (McpSession::new(), McpSession::new());
        let key = |mcp_session, id: Value| {
            Key::new(&HeaderMap::new(), Some(mcp_session), Some(&id)).unwrap()
        };
        let first = in_flight.register(key(&here, json!(1)));
        let again = in_flight.register(key(&here, json!(1)));
        let others = [
            in_flight.register(key(&here, json!("1"))),
            in_flight.register(key(&there, json!(1))),
        ];
        in_flight.cancel(&key(&here, json!(1)));
        in_flight.cancel(&key(&here, json!(7)));
        assert!(first.cancelled().is_cancelled() && again.cancelled().is_cancelled());
        assert!(others.iter().all(|other| !other.cancelled().is_cancelled()));
        drop((first, again));
        assert!(
            !in_flight
                .register(key(&here, json!(1)))
                .cancelled()
                .is_cancelled()
        );
        drop(others);
        assert!(in_flight.lock().is_empty());
        assert_eq!(Key::new(&HeaderMap::new(), None, Some(&json!(1))), None);
    }
}
