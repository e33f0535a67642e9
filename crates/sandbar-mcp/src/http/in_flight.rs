//! Requests that are being answered, so that a notification in a POST of its own can cancel them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use http::{HeaderMap, header};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call_id::Conversation;

/// What tells a request from all others: its caller, its conversation and its id there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// A hash of the caller's token: nothing that opens the host is kept here.
    caller: Option<blake3::Hash>,
    conversation: Conversation,
    id: String,
}

impl Key {
    /// `None` for a message without an id, or outside of a conversation: only its sender ends it, by hanging up.
    pub(super) fn new(headers: &HeaderMap, conversation: Option<&Conversation>, id: Option<&Value>) -> Option<Self> {
        let caller = headers.get(header::AUTHORIZATION).map(|field| blake3::hash(field.as_bytes()));
        Some(Self { caller, conversation: conversation?.clone(), id: id?.to_string() })
    }
}

/// Requests under way.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Key, Weak<Request>>>>);

/// One request under way, or the same one sent several times. Dropping it gives up its place.
#[derive(Debug)]
pub(super) struct Request {
    key: Key,
    cancelled: CancellationToken,
    all: InFlight,
}

impl InFlight {
    pub(super) fn enter(&self, key: Key) -> Arc<Request> {
        let mut under_way = self.lock();
        if let Some(same) = under_way.get(&key).and_then(Weak::upgrade) {
            return same;
        }
        let request = Arc::new(Request { key: key.clone(), cancelled: CancellationToken::new(), all: self.clone() });
        under_way.insert(key, Arc::downgrade(&request));
        request
    }

    /// Cancels a request, if it is under way.
    pub(super) fn cancel(&self, key: &Key) {
        // Upgraded and dropped outside of the lock, which dropping takes.
        let found = self.lock().get(key).and_then(Weak::upgrade);
        if let Some(request) = found {
            request.cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<Request>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    pub(super) fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut under_way = self.all.lock();
        // The same request may have entered again in between.
        if under_way.get(&self.key).is_some_and(|entry| entry.strong_count() == 0) {
            under_way.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn in_flight_cancel_ends_the_request_of_its_key_only() {
        let in_flight = InFlight::default();
        let (here, there) = (Conversation::new(), Conversation::new());
        let key = |conversation, id: Value| Key::new(&HeaderMap::new(), Some(conversation), Some(&id)).unwrap();
        let first = in_flight.enter(key(&here, json!(1)));
        let again = in_flight.enter(key(&here, json!(1)));
        let others = [in_flight.enter(key(&here, json!("1"))), in_flight.enter(key(&there, json!(1)))];
        in_flight.cancel(&key(&here, json!(1)));
        in_flight.cancel(&key(&here, json!(7)));
        assert!(first.cancelled().is_cancelled() && again.cancelled().is_cancelled());
        assert!(others.iter().all(|other| !other.cancelled().is_cancelled()));
        drop((first, again));
        assert!(!in_flight.enter(key(&here, json!(1))).cancelled().is_cancelled());
        drop(others);
        assert!(in_flight.lock().is_empty());
        assert_eq!(Key::new(&HeaderMap::new(), None, Some(&json!(1))), None);
    }
}
