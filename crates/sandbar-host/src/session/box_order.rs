//! [`BoxOrder`]: serialises what starts, stops or replaces the box of a session.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use sandbar_core::{Error, ErrorCode, MutexExt as _, Result, SessionId};

/// Longer than any start or stop of a box takes, each of which has a deadline of its own.
const BOX_ORDER_TIMEOUT: Duration = Duration::from_mins(2);

/// A lock whose waiters give up. It may be held over work that blocks.
#[derive(Debug, Default)]
pub(super) struct BoxOrder {
    is_held: Mutex<bool>,
    released: Condvar,
}

/// The lock, until it is dropped.
#[derive(Debug)]
pub(super) struct BoxOrderGuard<'a>(&'a BoxOrder);

impl BoxOrder {
    /// Locks. `Timeout` if another caller holds the lock for too long.
    pub(super) fn lock(&self, session: &SessionId) -> Result<BoxOrderGuard<'_>> {
        self.lock_within(BOX_ORDER_TIMEOUT, session)
    }

    fn lock_within(&self, timeout: Duration, session: &SessionId) -> Result<BoxOrderGuard<'_>> {
        let begun = Instant::now();
        let mut is_held = self.is_held.lock_unpoisoned();
        while *is_held {
            let rest = timeout.saturating_sub(begun.elapsed());
            if rest.is_zero() {
                return Err(Error::new(
                    ErrorCode::Timeout,
                    format!(
                        "sandbox of session `{session}` was still being started or stopped after {}s",
                        timeout.as_secs()
                    ),
                )
                .with_hint("try again later"));
            }
            is_held = self
                .released
                .wait_timeout(is_held, rest)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *is_held = true;
        Ok(BoxOrderGuard(self))
    }
}

impl Drop for BoxOrderGuard<'_> {
    fn drop(&mut self) {
        *self.0.is_held.lock_unpoisoned() = false;
        self.0.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiter_gives_up_and_gets_the_lock_once_it_is_free() {
        let (order, session) = (BoxOrder::default(), "s".parse().unwrap());
        let held = order.lock(&session).unwrap();
        let error = order.lock_within(Duration::ZERO, &session).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Timeout);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| drop(order.lock(&session).unwrap()));
            drop(held);
            waits.join().unwrap();
        });
        drop(order.lock_within(Duration::ZERO, &session).unwrap());
    }
}
