//! [`AdmissionLock`] and its rules.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, Result, SessionId};

use super::{
    entry::{Destroyer, ExclusiveEntry, SharedEntry},
    sync::{Condvar, Mutex, MutexGuard, now},
};

/// The exclusive operation that holds the lock, or drains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExclusiveWork {
    Pausing,
    RollingBack,
    Hibernating,
    ChangingNetwork,
    Destroying,
}

impl ExclusiveWork {
    /// Whether it ends soon enough that a caller should wait for it instead of being refused.
    fn is_brief(self) -> bool {
        matches!(self, Self::Pausing | Self::ChangingNetwork)
    }
}

/// Whether a drain gives up for a caller in [`AdmissionLock::enter_shared_waiting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    Insist,
    Yield,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Shared entries.
    pub(super) shared: usize,
    /// The exclusive operation, which runs or drains shared entries.
    pub(super) exclusive: Option<ExclusiveWork>,
    /// Callers that wait for a brief exclusive operation to end.
    pub(super) waiting: usize,
    /// Callers that destroy the session or wait to. While there is one, no other caller is
    /// admitted.
    pub(super) destroyers: usize,
    /// The session is gone; no caller is admitted again.
    pub(super) gone: bool,
}

/// The admission lock of one session. Waiting blocks the thread, so verbs that may wait run on
/// threads of their own (`blocking.rs`).
#[derive(Debug)]
pub(crate) struct AdmissionLock {
    session: SessionId,
    state: Mutex<State>,
    /// Signalled when the last shared entry or the exclusive entry has left.
    left: Condvar,
}

impl AdmissionLock {
    pub(crate) fn new(session: SessionId) -> Arc<Self> {
        Arc::new(Self {
            session,
            state: Mutex::new(State::default()),
            left: Condvar::new(),
        })
    }

    /// Enters beside other shared operations. Refuses while an exclusive operation runs or drains;
    /// never waits.
    pub(crate) fn enter_shared(self: &Arc<Self>) -> Result<SharedEntry> {
        let mut state = self.state();
        self.require_open(&state)?;
        state.shared += 1;
        Ok(SharedEntry::new(self))
    }

    /// As [`enter_shared`](Self::enter_shared), but waits for a brief exclusive operation to end. A
    /// drain by [`enter_exclusive_yielding`](Self::enter_exclusive_yielding) gives up for this
    /// caller.
    pub(crate) fn enter_shared_waiting(self: &Arc<Self>) -> Result<SharedEntry> {
        let mut state = self.state();
        let is_brief = |state: &State| {
            state.destroyers == 0 && state.exclusive.is_some_and(ExclusiveWork::is_brief)
        };
        if is_brief(&state) {
            state.waiting += 1;
            self.wake_waiters();
            while is_brief(&state) {
                state = self
                    .left
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
        }
        self.require_open(&state)?;
        state.shared += 1;
        Ok(SharedEntry::new(self))
    }

    /// Refuses new entries at once, waits for the shared ones, and enters alone. After `timeout`
    /// the lock opens again and the caller gets `ToolsInFlight`. Only destruction waits for another
    /// exclusive operation; any other caller is refused.
    pub(crate) fn enter_exclusive(
        self: &Arc<Self>,
        work: ExclusiveWork,
        timeout: Duration,
    ) -> Result<ExclusiveEntry> {
        let entry = self.close(work)?;
        self.drain(timeout, Drain::Insist)?;
        Ok(entry)
    }

    /// As [`enter_exclusive`](Self::enter_exclusive), but the drain gives up as soon as a caller
    /// waits in [`enter_shared_waiting`](Self::enter_shared_waiting).
    pub(crate) fn enter_exclusive_yielding(
        self: &Arc<Self>,
        work: ExclusiveWork,
        timeout: Duration,
    ) -> Result<ExclusiveEntry> {
        let entry = self.close(work)?;
        self.drain(timeout, Drain::Yield)?;
        Ok(entry)
    }

    /// Enters alone to destroy the session. Each time `timeout` ends, `cancel` cancels what it can
    /// and returns whether there was anything to cancel; as long as there is, the lock stays closed
    /// and the drain continues.
    pub(crate) fn enter_to_destroy(
        self: &Arc<Self>,
        timeout: Duration,
        mut cancel: impl FnMut() -> bool,
    ) -> Result<ExclusiveEntry> {
        let entry = self.close(ExclusiveWork::Destroying)?;
        while self.drain(timeout, Drain::Insist).is_err() {
            if !cancel() {
                // What could have been cancelled may have left by itself just before.
                self.drain(Duration::ZERO, Drain::Insist)?;
                break;
            }
        }
        Ok(entry)
    }

    /// Refuses new entries until the returned entry is dropped.
    fn close(self: &Arc<Self>, work: ExclusiveWork) -> Result<ExclusiveEntry> {
        let destroyer = (work == ExclusiveWork::Destroying).then(|| Destroyer::announce(self));
        let mut state = self.state();
        if destroyer.is_some() {
            // A destroy call must not fail because a rollback happens to run.
            while state.exclusive.is_some() {
                state = self
                    .left
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            self.require_present(&state)?;
        } else {
            self.require_open(&state)?;
        }
        state.exclusive = Some(work);
        drop(state);
        Ok(ExclusiveEntry::new(self, destroyer))
    }

    /// Waits for the shared entries to leave. The caller has closed the lock.
    fn drain(&self, timeout: Duration, drain: Drain) -> Result<()> {
        let begun = now();
        let mut state = self.state();
        while state.shared > 0 {
            let rest = timeout.saturating_sub(now().duration_since(begun));
            if rest.is_zero() || (drain == Drain::Yield && state.waiting > 0) {
                let message = format!(
                    "session `{}` has {} operations that did not finish in time",
                    self.session, state.shared
                );
                return Err(Error::new(ErrorCode::ToolsInFlight, message)
                    .with_hint("wait for them or cancel them, then try again"));
            }
            state = self
                .left
                .wait_timeout(state, rest)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        Ok(())
    }

    /// Waits until there is no entry; returns whether that was so before `timeout`. The caller
    /// keeps new entries out by other means.
    pub(crate) fn wait_until_empty(&self, timeout: Duration) -> bool {
        let begun = now();
        let mut state = self.state();
        while state.shared > 0 || state.exclusive.is_some() {
            let rest = timeout.saturating_sub(now().duration_since(begun));
            if rest.is_zero() {
                return false;
            }
            state = self
                .left
                .wait_timeout(state, rest)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// Refuses with the reason for which the lock is closed.
    fn require_open(&self, state: &State) -> Result<()> {
        self.require_present(state)?;
        let session = &self.session;
        // A destroyer is next, whatever runs now.
        let work = if state.destroyers > 0 {
            Some(ExclusiveWork::Destroying)
        } else {
            state.exclusive
        };
        match work {
            None => Ok(()),
            Some(ExclusiveWork::Pausing) => Err(Error::new(
                ErrorCode::SessionPaused,
                format!("session `{session}` is being paused"),
            )
            .with_hint("try again after it is resumed")),
            Some(ExclusiveWork::Hibernating) => Err(Error::new(
                ErrorCode::SessionPaused,
                format!("session `{session}` is being hibernated or woken"),
            )
            .with_hint("try again when that is done")),
            Some(ExclusiveWork::ChangingNetwork) => Err(Error::new(
                ErrorCode::SessionPaused,
                format!("session `{session}` is changing its network"),
            )
            .with_hint("try again")),
            Some(ExclusiveWork::RollingBack) => Err(Error::new(
                ErrorCode::RollbackInProgress,
                format!("session `{session}` is being rolled back"),
            )
            .with_hint("try again when that is done")),
            Some(ExclusiveWork::Destroying) => Err(Error::new(
                ErrorCode::SessionDestroying,
                format!("session `{session}` is being destroyed"),
            )
            .with_hint("create a new one")),
        }
    }

    fn require_present(&self, state: &State) -> Result<()> {
        if state.gone {
            Err(not_found(&self.session))
        } else {
            Ok(())
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets every waiting caller check the state again.
    pub(super) fn wake_waiters(&self) {
        self.left.notify_all();
    }
}

/// Returns the error for a session that does not exist.
pub(crate) fn not_found(session: &SessionId) -> Error {
    Error::new(
        ErrorCode::SessionNotFound,
        format!("session `{session}` does not exist"),
    )
    .with_session(session)
    .with_field("session_id")
    .with_hint("list sessions with `sandbar ls`")
}
