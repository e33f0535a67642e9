//! The requests that are being answered, so that they can be found again and cancelled.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::jsonrpc::Request;

/// Requests under way, by whatever tells them apart.
#[derive(Debug)]
pub(crate) struct InFlight<K> {
    under_way: Arc<Mutex<UnderWay<K>>>,
}

#[derive(Debug)]
struct UnderWay<K> {
    next_number: u64,
    requests: HashMap<K, Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    request: Arc<Request>,
    cancelled: CancellationToken,
}

/// A place among the requests under way. Dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Ticket<K: Clone + Eq + Hash> {
    key: K,
    number: u64,
    cancelled: CancellationToken,
    under_way: Arc<Mutex<UnderWay<K>>>,
}

impl<K: Clone + Eq + Hash> InFlight<K> {
    /// Takes a place. The same request may be under way twice.
    pub(crate) fn enter(&self, key: K, request: &Arc<Request>, parent: &CancellationToken) -> Ticket<K> {
        let cancelled = parent.child_token();
        let mut under_way = lock(&self.under_way);
        let number = under_way.next_number;
        under_way.next_number += 1;
        let entry = Entry { number, request: Arc::clone(request), cancelled: cancelled.clone() };
        under_way.requests.entry(key.clone()).or_default().push(entry);
        Ticket { key, number, cancelled, under_way: Arc::clone(&self.under_way) }
    }

    /// A request that is under way here.
    pub(crate) fn find(&self, key: &K) -> Option<Arc<Request>> {
        lock(&self.under_way).requests.get(key)?.first().map(|entry| Arc::clone(&entry.request))
    }

    /// Cancels a request. One that is not there, or no longer, is nobody's fault.
    pub(crate) fn cancel(&self, key: &K) {
        for entry in lock(&self.under_way).requests.get(key).into_iter().flatten() {
            entry.cancelled.cancel();
        }
    }
}

impl<K: Clone + Eq + Hash> Ticket<K> {
    /// Does the work, unless it is cancelled before it is done.
    pub(crate) async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.cancelled.run_until_cancelled(work).await
    }
}

impl<K: Clone + Eq + Hash> Drop for Ticket<K> {
    fn drop(&mut self) {
        let mut under_way = lock(&self.under_way);
        if let Some(entries) = under_way.requests.get_mut(&self.key) {
            entries.retain(|entry| entry.number != self.number);
            if entries.is_empty() {
                under_way.requests.remove(&self.key);
            }
        }
    }
}

impl<K> Default for InFlight<K> {
    fn default() -> Self {
        Self { under_way: Arc::new(Mutex::new(UnderWay { next_number: 0, requests: HashMap::new() })) }
    }
}

fn lock<K>(under_way: &Mutex<UnderWay<K>>) -> MutexGuard<'_, UnderWay<K>> {
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::jsonrpc::{Params, RequestId};

    #[tokio::test]
    async fn a_cancelled_request_ends_and_every_place_is_given_up() {
        let in_flight = InFlight::default();
        let request =
            Arc::new(Request { id: RequestId::Text("a".into()), method: "ping".into(), params: Params::new() });
        let parent = CancellationToken::new();
        let tickets = [in_flight.enter(1, &request, &parent), in_flight.enter(1, &request, &parent)];
        let other = in_flight.enter(2, &request, &parent);
        in_flight.cancel(&1);
        in_flight.cancel(&7);
        for ticket in &tickets {
            assert_eq!(ticket.unless_cancelled(pending::<()>()).await, None);
        }
        assert_eq!(other.unless_cancelled(async { 5 }).await, Some(5));
        assert!(in_flight.find(&1).is_some());
        drop(tickets);
        assert!(in_flight.find(&1).is_none() && in_flight.find(&2).is_some());
        parent.cancel();
        assert_eq!(other.unless_cancelled(pending::<()>()).await, None);
    }
}
