//! The time of a session, which stands still while the session does.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// Time-outs and back-offs of processes are measured with it: what is frozen cannot be late.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    stopped: watch::Sender<Stopped>,
}

/// Who wants it to stand still.
#[derive(Clone, Copy, Debug, Default)]
struct Stopped {
    paused: bool,
    /// Those who froze the session for a moment.
    moments: usize,
}

impl Stopped {
    fn by_anybody(&self) -> bool {
        self.paused || self.moments > 0
    }
}

impl Clock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The session is paused, or it is not.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.stopped.send_modify(|stopped| stopped.paused = paused);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.stopped.borrow().paused
    }

    /// It stands still until what is returned is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.stopped.send_modify(|stopped| stopped.moments += 1);
        Held(self)
    }

    /// Waits until the session is paused.
    pub(crate) async fn paused(&self) {
        // It fails when the sender is gone, and we are the sender.
        let _ = self.stopped.subscribe().wait_for(|stopped| stopped.paused).await;
    }

    /// Waits until it goes.
    pub(super) async fn goes(&self) {
        // It fails when the sender is gone, and we are the sender.
        let _ = self.stopped.subscribe().wait_for(|stopped| !stopped.by_anybody()).await;
    }

    /// Waits for so much of its time.
    pub(super) async fn sleep(&self, mut left: Duration) {
        let mut stopped = self.stopped.subscribe();
        while !left.is_zero() {
            self.goes().await;
            let begun = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(left) => return,
                _ = stopped.wait_for(Stopped::by_anybody) => left = left.saturating_sub(begun.elapsed()),
            }
        }
    }
}

/// A moment in which the clock stands still.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Clock);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.stopped.send_modify(|stopped| stopped.moments -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_does_not_end_while_the_clock_stands_still() {
        let clock = Clock::new();
        clock.set_paused(true);
        let moment = clock.hold();
        let mut sleep = std::pin::pin!(clock.sleep(Duration::from_millis(1)));
        let still =
            async |sleep: std::pin::Pin<&mut _>| tokio::time::timeout(Duration::from_millis(20), sleep).await.is_err();
        assert!(still(sleep.as_mut()).await);
        clock.set_paused(false);
        assert!(still(sleep.as_mut()).await);
        drop(moment);
        sleep.await;
        clock.goes().await;
    }
}
