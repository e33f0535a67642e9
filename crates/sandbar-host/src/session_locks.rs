//! One async mutex per session, for callers of the host that read, decide and write.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use sandbar_core::SessionId;
use tokio::sync::OwnedMutexGuard;

type SessionLock = Arc<tokio::sync::Mutex<()>>;

/// Per-session async mutexes, created on first use. Waiters are served in order of arrival.
#[derive(Debug, Default)]
pub struct SessionLocks(Mutex<HashMap<SessionId, SessionLock>>);

impl SessionLocks {
    /// Locks a session until the guard is dropped.
    pub async fn lock(&self, id: &SessionId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Removes locks without holder or waiter, so that the map is bounded by the number of
            // concurrent callers.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(id.clone()).or_default())
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn session_lock_is_exclusive_and_removed_when_unused() {
        let (locks, inside) = (
            Arc::new(SessionLocks::default()),
            Arc::new(AtomicUsize::new(0)),
        );
        let id = SessionId::new("s1").unwrap();
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (locks, inside, id) = (Arc::clone(&locks), Arc::clone(&inside), id.clone());
                tokio::spawn(async move {
                    let _lock = locks.lock(&id).await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        drop(locks.lock(&SessionId::new("s2").unwrap()).await);
        assert_eq!(locks.0.lock().unwrap().len(), 1);
    }
}
