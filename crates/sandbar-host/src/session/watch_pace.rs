//! Waiting until a watcher has told what has happened so far.

use tokio::sync::watch;

/// How far a watcher is, counted in the times somebody has asked it to look.
#[derive(Debug, Default)]
pub struct WatchPace {
    asked: watch::Sender<u64>,
    told: watch::Sender<u64>,
}

impl WatchPace {
    /// Waits until whoever watches was told what happened before this call, or watches no more.
    pub async fn catch_up(&self) {
        let mut turn = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            turn = *asked;
        });
        // It fails when the sender is gone, which is here.
        let _ = self.told.subscribe().wait_for(|told| *told >= turn).await;
    }

    /// How often somebody has asked.
    pub(super) fn asked(&self) -> u64 {
        *self.asked.borrow()
    }

    /// Waits until somebody asks who is not among the first `seen`.
    pub(super) async fn asked_again(&self, seen: u64) {
        let _ = self.asked.subscribe().wait_for(|asked| *asked > seen).await;
    }

    /// What happened before the first `seen` have asked was told.
    pub(super) fn tell(&self, seen: u64) {
        self.told.send_if_modified(|told| {
            let is_further = seen > *told;
            *told = seen.max(*told);
            is_further
        });
    }

    /// Nothing is told any more.
    pub(super) fn end(&self) {
        self.tell(u64::MAX);
    }
}
