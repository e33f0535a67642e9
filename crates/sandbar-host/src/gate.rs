//! Admission to one session: shared work goes on side by side, exclusive work waits for it and keeps newcomers out.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sandbar_core::{Error, ErrorCode, Result, SessionId};

/// Why a gate is shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Pausing,
    RollingBack,
    Hibernating,
    Destroying,
}

#[derive(Debug)]
struct State {
    shared: usize,
    exclusive: Option<Closing>,
    /// The session is gone; nobody enters again.
    gone: bool,
}

/// The gate of one session. Waiting blocks the thread; verbs run on threads of their own.
#[derive(Debug)]
pub(crate) struct Gate {
    session: SessionId,
    state: Mutex<State>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn new(session: SessionId) -> Arc<Self> {
        let state = Mutex::new(State { shared: 0, exclusive: None, gone: false });
        Arc::new(Self { session, state, changed: Condvar::new() })
    }

    /// Enters beside others, unless exclusive work is under way or waiting.
    pub(crate) fn enter_shared(self: &Arc<Self>) -> Result<SharedEntry> {
        let mut state = self.lock();
        self.refuse_when_shut(&state)?;
        state.shared += 1;
        Ok(SharedEntry { gate: Arc::clone(self) })
    }

    /// Keeps newcomers out at once, waits for those inside, and enters alone. When they do not leave in time the gate
    /// opens again and the caller gets `ToolsInFlight`.
    pub(crate) fn enter_exclusive(self: &Arc<Self>, why: Closing, patience: Duration) -> Result<ExclusiveEntry> {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        // Destruction waits for its turn: it must not be refused because a rollback happens to run.
        while why == Closing::Destroying && state.exclusive.is_some() && !state.gone {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.refuse_when_shut(&state)?;
        state.exclusive = Some(why);
        while state.shared > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let inside = state.shared;
                state.exclusive = None;
                self.changed.notify_all();
                return Err(Error::new(
                    ErrorCode::ToolsInFlight,
                    format!("{inside} operations on session `{}` did not finish in time", self.session),
                )
                .with_hint("wait for them, or cancel them, and try again"));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(ExclusiveEntry { gate: Arc::clone(self), gone: false })
    }

    fn refuse_when_shut(&self, state: &State) -> Result<()> {
        let session = &self.session;
        if state.gone {
            return Err(not_found(session));
        }
        match state.exclusive {
            None => Ok(()),
            Some(Closing::Pausing) => {
                Err(Error::new(ErrorCode::SessionPaused, format!("session `{session}` is being paused"))
                    .with_hint("try again when it is resumed"))
            }
            Some(Closing::Hibernating) => Err(Error::new(
                ErrorCode::SessionPaused,
                format!("session `{session}` is being put away or brought back"),
            )
            .with_hint("try again when that is done")),
            Some(Closing::RollingBack) => {
                Err(Error::new(ErrorCode::RollbackInProgress, format!("session `{session}` is being rolled back"))
                    .with_hint("try again when it is done"))
            }
            Some(Closing::Destroying) => {
                Err(Error::new(ErrorCode::SessionDestroying, format!("session `{session}` is being destroyed")))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for a session nobody knows.
pub(crate) fn not_found(session: &SessionId) -> Error {
    Error::new(ErrorCode::SessionNotFound, format!("session `{session}` does not exist"))
        .with_field("session_id")
        .with_hint("list sessions with `sandbar ls`")
}

/// A place beside others; left when dropped.
#[derive(Debug)]
pub(crate) struct SharedEntry {
    gate: Arc<Gate>,
}

impl Drop for SharedEntry {
    fn drop(&mut self) {
        self.gate.lock().shared -= 1;
        self.gate.changed.notify_all();
    }
}

/// The session alone; left when dropped.
#[derive(Debug)]
pub(crate) struct ExclusiveEntry {
    gate: Arc<Gate>,
    gone: bool,
}

impl ExclusiveEntry {
    /// The session is no more: whoever waits, and whoever comes, is told so.
    pub(crate) fn leave_for_good(mut self) {
        self.gone = true;
    }
}

impl Drop for ExclusiveEntry {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.exclusive = None;
        state.gone |= self.gone;
        drop(state);
        self.gate.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    fn gate() -> Arc<Gate> {
        Gate::new(SessionId::new("s").unwrap())
    }

    fn code(outcome: Result<impl Sized>) -> ErrorCode {
        outcome.map(|_| ()).unwrap_err().code()
    }

    #[test]
    fn shared_entries_do_not_exclude_each_other() {
        let gate = gate();
        let _first = gate.enter_shared().unwrap();
        let _second = gate.enter_shared().unwrap();
    }

    #[test]
    fn exclusive_entry_keeps_newcomers_out_and_says_why() {
        let gate = gate();
        let alone = gate.enter_exclusive(Closing::RollingBack, SOON).unwrap();
        assert_eq!(code(gate.enter_shared()), ErrorCode::RollbackInProgress);
        assert_eq!(code(gate.enter_exclusive(Closing::RollingBack, SOON)), ErrorCode::RollbackInProgress);
        drop(alone);
        gate.enter_shared().unwrap();
    }

    #[test]
    fn a_drain_that_takes_too_long_opens_the_gate_again() {
        let gate = gate();
        let inside = gate.enter_shared().unwrap();
        assert_eq!(code(gate.enter_exclusive(Closing::RollingBack, SOON)), ErrorCode::ToolsInFlight);
        gate.enter_shared().unwrap();
        drop(inside);
        gate.enter_exclusive(Closing::RollingBack, SOON).unwrap();
    }

    #[test]
    fn exclusive_entry_waits_for_those_inside() {
        let gate = gate();
        let inside = gate.enter_shared().unwrap();
        let waiting = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || gate.enter_exclusive(Closing::Destroying, Duration::from_mins(1)).map(drop))
        };
        sandbar_testing::eventually("newcomers are refused", || gate.enter_shared().is_err());
        drop(inside);
        waiting.join().unwrap().unwrap();
        gate.enter_shared().unwrap();
    }

    #[test]
    fn nobody_enters_a_session_that_is_gone() {
        let gate = gate();
        gate.enter_exclusive(Closing::Destroying, SOON).unwrap().leave_for_good();
        assert_eq!(code(gate.enter_shared()), ErrorCode::SessionNotFound);
        assert_eq!(code(gate.enter_exclusive(Closing::Destroying, SOON)), ErrorCode::SessionNotFound);
    }
}
