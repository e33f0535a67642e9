//! A condition variable.

use std::{
    panic::Location,
    sync::{self, LockResult, PoisonError},
    time::Duration,
};

use super::MutexGuard;
use crate::{
    current::{Turn, current},
    pending::{Address, Pending},
};

/// Like [`std::sync::Condvar`], without spurious wakeups. In a run a timeout may expire at any
/// moment; one of a century or more never does.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: sync::Condvar,
}

/// Whether a wait ended because its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub const fn new() -> Self {
        Self {
            inner: sync::Condvar::new(),
        }
    }

    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        if current().is_none() {
            let mutex = guard.mutex();
            return mutex.guard(self.inner.wait(guard.into_inner()));
        }
        match self.wait_in_run(guard, None) {
            Ok((guard, _)) => Ok(guard),
            Err(poisoned) => Err(PoisonError::new(poisoned.into_inner().0)),
        }
    }

    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        if current().is_some() {
            return self.wait_in_run(guard, Some(timeout));
        }
        let mutex = guard.mutex();
        let (guard, timed_out, poisoned) =
            match self.inner.wait_timeout(guard.into_inner(), timeout) {
                Ok((guard, result)) => (guard, result.timed_out(), false),
                Err(poisoned) => {
                    let (guard, result) = poisoned.into_inner();
                    (guard, result.timed_out(), true)
                }
            };
        let guard = mutex.guard(if poisoned {
            Err(PoisonError::new(guard))
        } else {
            Ok(guard)
        });
        with_result(guard, timed_out)
    }

    #[track_caller]
    fn wait_in_run<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Option<Duration>,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (mutex, at) = (guard.mutex(), Location::caller());
        let Some(this) = current() else {
            unreachable!("the caller has looked")
        };
        // A notification that comes now, between looking and waiting, is lost.
        if this.reach(Pending::Step("begins to wait"), at) == Turn::GivenUp {
            return Ok((guard, WaitTimeoutResult(true)));
        }
        drop(guard);
        match this.wait(Address::of(self), mutex.address(), timeout, at) {
            (Turn::Mine, timed_out) => with_result(mutex.take(), timed_out),
            (Turn::GivenUp, _) => Ok((mutex.take_while_unwinding(), WaitTimeoutResult(true))),
        }
    }

    #[track_caller]
    pub fn notify_one(&self) {
        let Some(this) = current() else {
            return self.inner.notify_one();
        };
        if this.reach(Pending::Step("notifies one"), Location::caller()) == Turn::Mine {
            this.notify_one(Address::of(self));
        }
    }

    #[track_caller]
    pub fn notify_all(&self) {
        let Some(this) = current() else {
            return self.inner.notify_all();
        };
        if this.reach(Pending::Step("notifies all"), Location::caller()) == Turn::Mine {
            this.notify_all(Address::of(self));
        }
    }
}

fn with_result<T>(
    outcome: LockResult<MutexGuard<'_, T>>,
    timed_out: bool,
) -> LockResult<(MutexGuard<'_, T>, WaitTimeoutResult)> {
    match outcome {
        Ok(guard) => Ok((guard, WaitTimeoutResult(timed_out))),
        Err(poisoned) => Err(PoisonError::new((
            poisoned.into_inner(),
            WaitTimeoutResult(timed_out),
        ))),
    }
}
