//! The gate: who is inside, and why nobody else comes in.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, Result, SessionId};

use super::{
    entry::{Destroyer, ExclusiveEntry, SharedEntry},
    sync::{Condvar, Mutex, MutexGuard, now},
};

/// Why a gate is shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Pausing,
    RollingBack,
    Hibernating,
    ChangingNetwork,
    Destroying,
}

impl Closing {
    /// It is over before anybody who was refused could come again.
    fn is_brief(self) -> bool {
        matches!(self, Self::Pausing | Self::ChangingNetwork)
    }
}

/// Whether somebody who waits for those inside to leave gives up when others wait for the gate to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Insistence {
    Stays,
    GivesWay,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) shared: usize,
    /// Exclusive work that is inside, or waits for those inside to leave.
    pub(super) exclusive: Option<Closing>,
    /// Callers that wait beside the gate for brief work to end.
    pub(super) waiting: usize,
    /// Callers that destroy the session, or wait for their turn to. While there is one, nobody else comes in.
    pub(super) destroyers: usize,
    /// The session is gone; nobody enters again.
    pub(super) gone: bool,
}

/// The gate of one session. Waiting blocks the thread; verbs run on threads of their own.
#[derive(Debug)]
pub(crate) struct Gate {
    session: SessionId,
    state: Mutex<State>,
    /// The last of those inside has left, or exclusive work has.
    left: Condvar,
}

impl Gate {
    pub(crate) fn new(session: SessionId) -> Arc<Self> {
        Arc::new(Self { session, state: Mutex::new(State::default()), left: Condvar::new() })
    }

    /// Enters beside others, unless exclusive work is under way or waiting.
    pub(crate) fn enter_shared(self: &Arc<Self>) -> Result<SharedEntry> {
        let mut state = self.lock();
        self.refuse_when_shut(&state)?;
        state.shared += 1;
        Ok(SharedEntry::new(self))
    }

    /// The same, but waits for brief work to end, and for whoever is about to do it with [`enter_giving_way`] to give up.
    ///
    /// [`enter_giving_way`]: Self::enter_giving_way
    pub(crate) fn enter_shared_soon(self: &Arc<Self>) -> Result<SharedEntry> {
        let mut state = self.lock();
        let is_brief = |state: &State| state.destroyers == 0 && state.exclusive.is_some_and(Closing::is_brief);
        if is_brief(&state) {
            state.waiting += 1;
            self.tell_waiting();
            while is_brief(&state) {
                state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
        }
        self.refuse_when_shut(&state)?;
        state.shared += 1;
        Ok(SharedEntry::new(self))
    }

    /// Keeps newcomers out at once, waits for those inside, and enters alone. When they do not leave in time the gate
    /// opens again and the caller gets `ToolsInFlight`. Only destruction waits for other exclusive work.
    pub(crate) fn enter_exclusive(self: &Arc<Self>, why: Closing, patience: Duration) -> Result<ExclusiveEntry> {
        let entry = self.shut(why)?;
        self.drain(patience, Insistence::Stays)?;
        Ok(entry)
    }

    /// The same for work that can wait: as long as somebody is inside it gives way to who comes with [`enter_shared_soon`].
    ///
    /// [`enter_shared_soon`]: Self::enter_shared_soon
    pub(crate) fn enter_giving_way(self: &Arc<Self>, why: Closing, patience: Duration) -> Result<ExclusiveEntry> {
        let entry = self.shut(why)?;
        self.drain(patience, Insistence::GivesWay)?;
        Ok(entry)
    }

    /// Enters alone to destroy the session. Whenever `patience` ends, `cancel` ends what it can and says whether there
    /// was anything; as long as there is, the gate stays shut and this goes on.
    pub(crate) fn enter_to_destroy(
        self: &Arc<Self>,
        patience: Duration,
        mut cancel: impl FnMut() -> bool,
    ) -> Result<ExclusiveEntry> {
        let entry = self.shut(Closing::Destroying)?;
        while self.drain(patience, Insistence::Stays).is_err() {
            if !cancel() {
                // What could have been cancelled may have left by itself just before.
                self.drain(Duration::ZERO, Insistence::Stays)?;
                break;
            }
        }
        Ok(entry)
    }

    /// Keeps newcomers out. Dropping what is returned opens the gate again.
    fn shut(self: &Arc<Self>, why: Closing) -> Result<ExclusiveEntry> {
        let destroyer = (why == Closing::Destroying).then(|| Destroyer::announce(self));
        let mut state = self.lock();
        if destroyer.is_some() {
            // It must not be refused because a rollback happens to run.
            while state.exclusive.is_some() {
                state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            self.refuse_when_gone(&state)?;
        } else {
            self.refuse_when_shut(&state)?;
        }
        state.exclusive = Some(why);
        drop(state);
        Ok(ExclusiveEntry::new(self, destroyer))
    }

    /// Waits for those inside to leave, for a caller that has shut the gate.
    fn drain(&self, patience: Duration, insistence: Insistence) -> Result<()> {
        let begun = now();
        let mut state = self.lock();
        while state.shared > 0 {
            let rest = patience.saturating_sub(now().duration_since(begun));
            if rest.is_zero() || (insistence == Insistence::GivesWay && state.waiting > 0) {
                let message =
                    format!("{} operations on session `{}` did not finish in time", state.shared, self.session);
                return Err(Error::new(ErrorCode::ToolsInFlight, message)
                    .with_hint("wait for them, or cancel them, and try again"));
            }
            state = self.left.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Waits until nobody is inside; `false` when somebody stays. Whoever calls this keeps newcomers out by other means.
    pub(crate) fn wait_until_empty(&self, patience: Duration) -> bool {
        let begun = now();
        let mut state = self.lock();
        while state.shared > 0 || state.exclusive.is_some() {
            let rest = patience.saturating_sub(now().duration_since(begun));
            if rest.is_zero() {
                return false;
            }
            state = self.left.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn refuse_when_shut(&self, state: &State) -> Result<()> {
        self.refuse_when_gone(state)?;
        let session = &self.session;
        // Whoever destroys the session is next, whatever is under way.
        let why = if state.destroyers > 0 { Some(Closing::Destroying) } else { state.exclusive };
        match why {
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
            Some(Closing::ChangingNetwork) => {
                Err(Error::new(ErrorCode::SessionPaused, format!("session `{session}` is getting another network"))
                    .with_hint("try again at once"))
            }
            Some(Closing::RollingBack) => {
                Err(Error::new(ErrorCode::RollbackInProgress, format!("session `{session}` is being rolled back"))
                    .with_hint("try again when it is done"))
            }
            Some(Closing::Destroying) => {
                Err(Error::new(ErrorCode::SessionDestroying, format!("session `{session}` is being destroyed"))
                    .with_hint("make a new one"))
            }
        }
    }

    fn refuse_when_gone(&self, state: &State) -> Result<()> {
        if state.gone { Err(not_found(&self.session)) } else { Ok(()) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who wait that somebody has left.
    pub(super) fn tell_waiting(&self) {
        self.left.notify_all();
    }
}

/// The error for a session nobody knows.
pub(crate) fn not_found(session: &SessionId) -> Error {
    Error::new(ErrorCode::SessionNotFound, format!("session `{session}` does not exist"))
        .with_field("session_id")
        .with_hint("list sessions with `sandbar ls`")
}
