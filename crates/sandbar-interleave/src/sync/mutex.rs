//! A lock.

use std::{
    ops::{Deref, DerefMut},
    panic::Location,
    sync::{self, LockResult, PoisonError, TryLockError},
};

use crate::{
    current::{Turn, current},
    pending::{Address, Pending},
};

/// Like [`std::sync::Mutex`], with a decision before it is taken.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: sync::Mutex<T>,
}

/// The lock, held.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// There until it is dropped.
    inner: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self {
            inner: sync::Mutex::new(value),
        }
    }

    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match current() {
            None => self.guard(self.inner.lock()),
            Some(this) => match this.reach(Pending::Lock(self.address()), Location::caller()) {
                Turn::Mine => self.take(),
                Turn::GivenUp => Ok(self.take_while_unwinding()),
            },
        }
    }

    /// Takes the lock for a thread whose turn it is.
    pub(super) fn take(&self) -> LockResult<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => self.guard(Ok(inner)),
            Err(TryLockError::Poisoned(poisoned)) => self.guard(Err(poisoned)),
            Err(TryLockError::WouldBlock) => {
                panic!("the lock is held by a thread outside of this run")
            }
        }
    }

    /// Takes the lock like any thread does. Others have unwound with it, so whether it is poisoned
    /// says nothing.
    pub(super) fn take_while_unwinding(&self) -> MutexGuard<'_, T> {
        self.guard(self.inner.lock())
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn address(&self) -> Address {
        Address::of(self)
    }

    pub(super) fn guard<'a>(
        &'a self,
        outcome: LockResult<sync::MutexGuard<'a, T>>,
    ) -> LockResult<MutexGuard<'a, T>> {
        let guard = |inner| MutexGuard {
            mutex: self,
            inner: Some(inner),
        };
        outcome
            .map(guard)
            .map_err(|poisoned| PoisonError::new(guard(poisoned.into_inner())))
    }
}

impl<'a, T> MutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }

    /// Returns the guard of the standard library's lock, for a thread outside of a run.
    pub(super) fn into_inner(mut self) -> sync::MutexGuard<'a, T> {
        self.inner
            .take()
            .unwrap_or_else(|| unreachable!("it is there until the guard is dropped"))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner
            .as_deref()
            .unwrap_or_else(|| unreachable!("it is there until the guard is dropped"))
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner
            .as_deref_mut()
            .unwrap_or_else(|| unreachable!("it is there until the guard is dropped"))
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    /// Releases the lock without a decision: other threads only see it when they take the lock, and
    /// that is a decision.
    fn drop(&mut self) {
        drop(self.inner.take());
        if let Some(this) = current() {
            this.release(self.mutex.address());
        }
    }
}
