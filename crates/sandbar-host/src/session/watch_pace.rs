//! [`WatchPace`]: waiting until a watcher has reported the changes so far.

use tokio::sync::watch;

/// Progress of a watcher: requests to catch up, and how many of them are answered.
#[derive(Debug, Default)]
pub struct WatchPace {
    asked: watch::Sender<u64>,
    told: watch::Sender<u64>,
}

impl WatchPace {
    /// Waits until the client of the watcher has received every change before this call, or the
    /// watcher is gone.
    pub async fn catch_up(&self) {
        let mut turn = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            turn = *asked;
        });
        // Cannot fail: `self` holds the sender.
        let _ = self.told.subscribe().wait_for(|told| *told >= turn).await;
    }

    /// Number of requests so far.
    pub(super) fn asked(&self) -> u64 {
        *self.asked.borrow()
    }

    /// Waits for a request after the first `seen`.
    pub(super) async fn asked_again(&self, seen: u64) {
        let _ = self.asked.subscribe().wait_for(|asked| *asked > seen).await;
    }

    /// Answers the first `seen` requests.
    pub(super) fn tell(&self, seen: u64) {
        self.told.send_if_modified(|told| {
            let is_further = seen > *told;
            *told = seen.max(*told);
            is_further
        });
    }

    /// Answers every request, since the watcher is gone.
    pub(super) fn end(&self) {
        self.tell(u64::MAX);
    }
}
