//! One after the other, for each sandbox on its own.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use sandbar_core::SessionId;
use tokio::sync::OwnedMutexGuard;

type Line = Arc<tokio::sync::Mutex<()>>;

/// Those who change what E2B knows of a sandbox, or wake it, stand in a line: what one reads nobody else changes before it
/// has written, and whoever comes second finds the sandbox awake.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<SessionId, Line>>);

impl Turns {
    /// Waits for a turn; dropping it lets the next one in.
    pub(crate) async fn take(&self, id: &SessionId) -> OwnedMutexGuard<()> {
        let line = {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Lines nobody stands in are forgotten, so that there are never more than there are callers.
            lines.retain(|_, line| Arc::strong_count(line) > 1);
            Arc::clone(lines.entry(id.clone()).or_default())
        };
        line.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn one_sandbox_is_for_one_at_a_time_and_nothing_is_left_of_the_line() {
        let (turns, inside) = (Arc::new(Turns::default()), Arc::new(AtomicUsize::new(0)));
        let id = SessionId::new("s1").unwrap();
        let visitors: Vec<_> = (0..50)
            .map(|_| {
                let (turns, inside, id) = (Arc::clone(&turns), Arc::clone(&inside), id.clone());
                tokio::spawn(async move {
                    let _turn = turns.take(&id).await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        for visitor in visitors {
            visitor.await.unwrap();
        }
        drop(turns.take(&SessionId::new("s2").unwrap()).await);
        assert_eq!(turns.0.lock().unwrap().len(), 1);
    }
}
