//! Stopping the clock of a session, and starting it again.

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode, Keep, Quiesce, Result, SessionId, SessionInfo, SessionState};
use sandbar_runtime::Sandbox;
use sandbar_storage::ForkPoint;

use super::Session;
use crate::{
    Host,
    gate::Closing,
    host::Inner,
    process::StopReason,
    state::SessionRecord,
    verb::{Call, Verb},
};

impl Host {
    /// Freezes everything that runs in a session, once its tool calls are done. Nothing is ended: what runs goes on where
    /// it was when the session is resumed.
    pub async fn pause_session(&self, id: &SessionId) -> Result<SessionInfo> {
        self.pause_session_keeping(id, Keep::Memory).await
    }

    /// As [`pause_session`](Self::pause_session), or without what runs: then it is ended, and whatever runs after the
    /// session was resumed runs in a new box. Every runtime can do that.
    pub async fn pause_session_keeping(&self, id: &SessionId, keep: Keep) -> Result<SessionInfo> {
        let target = id.clone();
        let call = Call::on(id, Verb::PauseSession).with("keep", keep.as_str());
        self.run(call, move |inner| inner.pause(&target, keep)).await
    }

    /// Lets a paused session go on.
    pub async fn resume_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let target = id.clone();
        self.run(Call::on(id, Verb::ResumeSession), move |inner| inner.resume(&target)).await
    }
}

impl Inner {
    fn pause(&self, id: &SessionId, keep: Keep) -> Result<SessionInfo> {
        let session = self.session(id)?;
        // Before anybody is disturbed, and again when nobody else can change it.
        self.active(id)?;
        if keep == Keep::Memory {
            self.require_pause()?;
        }
        let _entry = session.gate.enter_exclusive(Closing::Pausing, self.config.pause_drain_timeout)?;
        let record = self.active(id)?;
        self.stop_clock(&session, &record, keep, record.expires)?;
        self.info(SessionRecord { state: SessionState::Paused, ..record })
    }

    /// Pauses a session nobody has used for its idle time. `false`: somebody uses it.
    pub(crate) fn pause_when_idle(&self, id: &SessionId) -> Result<bool> {
        let session = self.session_unused(id)?;
        let is_idle = |record: &SessionRecord| {
            record.state == SessionState::Active
                && record.idle_timeout.is_some_and(|limit| session.activity.idle_for() >= limit)
        };
        if !is_idle(&self.record(id)?) {
            return Ok(false);
        }
        self.require_pause()?;
        let Ok(_entry) = session.gate.enter_exclusive(Closing::Pausing, std::time::Duration::ZERO) else {
            return Ok(false);
        };
        let record = self.record(id)?;
        if !is_idle(&record) {
            return Ok(false);
        }
        self.freeze(&session, record.expires)?;
        Ok(true)
    }

    /// As much as can be kept here.
    pub(super) fn best_keep(&self) -> Keep {
        if self.require_pause().is_ok() { Keep::Memory } else { Keep::Files }
    }

    /// Pauses an active session the caller has to itself, and remembers that, and when its time is up from now on.
    pub(super) fn stop_clock(
        &self,
        session: &Session,
        record: &SessionRecord,
        keep: Keep,
        expires: Option<Timestamp>,
    ) -> Result<()> {
        match keep {
            Keep::Memory => self.freeze(session, expires),
            Keep::Files => self.let_go(session, record, expires),
        }
    }

    /// Ends everything that runs and lets the box go. Written down first: nothing is ended for a pause nobody remembers.
    fn let_go(&self, session: &Session, record: &SessionRecord, expires: Option<Timestamp>) -> Result<()> {
        let id = &session.id;
        self.state.set_paused(id, expires)?;
        let owners = session.stop(StopReason::PausedWithoutMemory).or_else(|error| {
            // The box is still there, so the session is what it was.
            self.state.set_expiry(id, record.expires, None)?;
            self.state.set_state(id, record.state).and(Err(error))
        })?;
        let _order = session.order_storage();
        if let Err(error) = self.storage.unmount(id) {
            tracing::warn!(session = %id, error = error.chain(), "could not unmount a session that is paused");
        }
        drop(owners);
        Ok(())
    }

    fn freeze(&self, session: &Session, expires: Option<Timestamp>) -> Result<()> {
        let sandbox = session.live_sandbox();
        if let Some(sandbox) = &sandbox {
            freeze_or_leave(session, &**sandbox)?;
        }
        let clock = &session.processes.clock;
        clock.set_paused(true);
        self.state.set_paused(&session.id, expires).inspect_err(|_| {
            clock.set_paused(false);
            if let Some(sandbox) = &sandbox {
                thaw_surely(session, &**sandbox);
            }
        })
    }

    fn resume(&self, id: &SessionId) -> Result<SessionInfo> {
        let session = self.session(id)?;
        self.paused(id)?;
        let _entry = session.gate.enter_exclusive(Closing::Pausing, self.config.pause_drain_timeout)?;
        let record = self.paused(id)?;
        let sandbox = session.live_sandbox();
        if let Some(sandbox) = &sandbox {
            // A session that stays paused makes no progress, however far the thaw came.
            if let Err(error) = sandbox.thaw()
                && sandbox.is_alive()
            {
                refreeze(&session, &**sandbox);
                return Err(error);
            }
        }
        self.state.set_state(id, SessionState::Active).inspect_err(|_| {
            if let Some(sandbox) = &sandbox {
                refreeze(&session, &**sandbox);
            }
        })?;
        session.processes.clock.set_paused(false);
        self.expect(&record);
        self.info(SessionRecord { state: SessionState::Active, ..record })
    }

    /// The record of a session that is paused.
    fn paused(&self, id: &SessionId) -> Result<SessionRecord> {
        let record = self.record(id)?;
        if record.state == SessionState::Paused {
            return Ok(record);
        }
        let error = Error::new(ErrorCode::InvalidState, format!("session `{id}` is {}, not paused", record.state));
        Err(match record.state {
            SessionState::Hibernated => error.with_hint(format!("bring it back with `sandbar wake {id}`")),
            _ => error,
        })
    }

    /// Refuses where nothing can be frozen.
    fn require_pause(&self) -> Result<()> {
        match self.runtime.facts().pause.reason() {
            None => Ok(()),
            Some(reason) => {
                Err(Error::new(ErrorCode::InvalidState, format!("sessions cannot be paused here: {reason}"))
                    .with_hint("see the capability `pause`"))
            }
        }
    }

    /// Freezes where that is possible.
    fn best_quiesce(&self) -> Quiesce {
        if self.require_pause().is_ok() { Quiesce::Always } else { Quiesce::WhereNeeded }
    }

    /// Copies the volume as it was at a snapshot, or as it is in one moment now. The caller has its turn at the storage.
    pub(super) fn copy_at<T>(
        &self,
        point: &ForkPoint,
        session: &Session,
        record: &SessionRecord,
        copy: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match point {
            ForkPoint::Snapshot(_) => copy(),
            ForkPoint::Now => self.in_one_moment(session, record, self.best_quiesce(), copy),
        }
    }

    /// Takes a copy of the volume: with the box frozen where that was asked for, or where the storage copies file by file
    /// and would otherwise mix several moments.
    pub(super) fn in_one_moment<T>(
        &self,
        session: &Session,
        record: &SessionRecord,
        quiesce: Quiesce,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let needed = self.storage.facts().constant_time_snapshots.reason().is_some();
        match quiesce {
            Quiesce::Always => self.quiesced(session, record, work),
            Quiesce::WhereNeeded if needed && self.require_pause().is_ok() => self.quiesced(session, record, work),
            Quiesce::WhereNeeded => work(),
        }
    }

    /// Runs `work` while nothing in the session runs, so that it sees one moment. A session without a sandbox, or one that
    /// is frozen already, needs nothing for that.
    fn quiesced<T>(&self, session: &Session, record: &SessionRecord, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let sandbox = session.live_sandbox().filter(|_| record.state == SessionState::Active);
        let Some(sandbox) = sandbox else { return work() };
        self.require_pause()?;
        let _turn = session.order_freezing();
        let _still = session.processes.clock.hold();
        freeze_or_leave(session, &*sandbox)?;
        let outcome = work();
        // What was done is done, whatever becomes of the thaw.
        thaw_surely(session, &*sandbox);
        outcome
    }
}

/// Freezes; one that fails may have come half way, and that is undone. A sandbox that has died needs no freezing.
fn freeze_or_leave(session: &Session, sandbox: &dyn Sandbox) -> Result<()> {
    match sandbox.freeze() {
        Err(error) if sandbox.is_alive() => {
            thaw_surely(session, sandbox);
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Thaws an active session. One that stays frozen could not be used by anybody, so it is tried twice, and then the sandbox
/// is given up: the next command gets a new one.
fn thaw_surely(session: &Session, sandbox: &dyn Sandbox) {
    let Err(first) = sandbox.thaw() else { return };
    if !sandbox.is_alive() {
        return;
    }
    tracing::warn!(session = %session.id, error = first.chain(), "could not thaw a session; trying again");
    let Err(second) = sandbox.thaw() else { return };
    tracing::error!(session = %session.id, error = second.chain(), "could not thaw a session; its sandbox is replaced");
    if let Err(error) = sandbox.stop() {
        tracing::error!(session = %session.id, error = error.chain(), "could not stop a sandbox that stays frozen");
    }
}

/// Freezes a session that was not resumed after all.
fn refreeze(session: &Session, sandbox: &dyn Sandbox) {
    if let Err(error) = sandbox.freeze() {
        tracing::error!(session = %session.id, error = error.chain(), "could not freeze a session that was not resumed");
    }
}
