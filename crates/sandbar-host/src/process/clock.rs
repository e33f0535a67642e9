//! [`Clock`]: the clock of a session, which stops while the session is frozen.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// Measures timeouts and back-offs of processes, so that none expires while the box is frozen.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    stopped: watch::Sender<Stopped>,
}

/// Reasons for which the clock is stopped.
#[derive(Clone, Copy, Debug, Default)]
struct Stopped {
    paused: bool,
    /// Operations that have frozen the box, as a snapshot does.
    holds: usize,
}

impl Stopped {
    fn is_stopped(&self) -> bool {
        self.paused || self.holds > 0
    }
}

impl Clock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Records whether the session is paused.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.stopped.send_modify(|stopped| stopped.paused = paused);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.stopped.borrow().paused
    }

    /// Stops the clock until the returned guard is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.stopped.send_modify(|stopped| stopped.holds += 1);
        Held(self)
    }

    /// Waits until the session is paused.
    pub(crate) async fn paused(&self) {
        // Cannot fail: `self` holds the sender.
        let _ = self
            .stopped
            .subscribe()
            .wait_for(|stopped| stopped.paused)
            .await;
    }

    /// Waits until the clock runs.
    pub(super) async fn runs(&self) {
        // Cannot fail: `self` holds the sender.
        let _ = self
            .stopped
            .subscribe()
            .wait_for(|stopped| !stopped.is_stopped())
            .await;
    }

    /// Waits for `left` of the time of this clock.
    pub(super) async fn sleep(&self, mut left: Duration) {
        let mut stopped = self.stopped.subscribe();
        while !left.is_zero() {
            self.runs().await;
            let begun = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(left) => return,
                _ = stopped.wait_for(Stopped::is_stopped) => left = left.saturating_sub(begun.elapsed()),
            }
        }
    }
}

/// Keeps the clock stopped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Clock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.stopped.send_modify(|stopped| stopped.holds -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleep_does_not_end_while_the_clock_is_stopped() {
        let clock = Clock::new();
        clock.set_paused(true);
        let hold = clock.hold();
        let mut sleep = std::pin::pin!(clock.sleep(Duration::from_millis(1)));
        let still = async |sleep: std::pin::Pin<&mut _>| {
            tokio::time::timeout(Duration::from_millis(20), sleep)
                .await
                .is_err()
        };
        assert!(still(sleep.as_mut()).await);
        clock.set_paused(false);
        assert!(still(sleep.as_mut()).await);
        drop(hold);
        sleep.await;
        clock.runs().await;
    }
}
