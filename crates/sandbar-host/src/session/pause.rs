//! Pausing and resuming a session, and freezing it for the time of a copy.

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode, Keep, Quiesce, Result, SessionId, SessionInfo, SessionState};
use sandbar_runtime::Sandbox;
use sandbar_storage::ForkPoint;

use super::Session;
use crate::{
    Host,
    admission::ExclusiveWork,
    engine::Engine,
    process::StopReason,
    state::SessionRecord,
    verb::{Call, Verb},
};

impl Host {
    /// Freezes the processes of a session once its tool calls are done. They continue when the
    /// session is resumed.
    pub async fn pause_session(&self, id: &SessionId) -> Result<SessionInfo> {
        self.pause_session_keeping(id, Keep::Memory).await
    }

    /// As [`pause_session`](Self::pause_session), or without memory: stops the box, and the resumed
    /// session starts a new one. Every runtime supports the latter.
    pub async fn pause_session_keeping(&self, id: &SessionId, keep: Keep) -> Result<SessionInfo> {
        let target = id.clone();
        let call = Call::on(id, Verb::PauseSession).with("keep", keep.as_str());
        self.run(call, move |engine| engine.pause(&target, keep))
            .await
    }

    /// Resumes a paused session.
    pub async fn resume_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let target = id.clone();
        self.run(Call::on(id, Verb::ResumeSession), move |engine| {
            engine.resume(&target)
        })
        .await
    }
}

impl Engine {
    fn pause(&self, id: &SessionId, keep: Keep) -> Result<SessionInfo> {
        let session = self.session(id)?;
        // Before the drain, so that a call that must fail disturbs nothing; and again after it.
        self.active(id)?;
        if keep == Keep::Memory {
            self.require_pause()?;
        }
        let _entry = session
            .admission
            .enter_exclusive(ExclusiveWork::Pausing, self.config.pause_drain_timeout)?;
        let record = self.active(id)?;
        self.stop_clock(&session, &record, keep, record.expires)?;
        self.info(SessionRecord {
            state: SessionState::Paused,
            ..record
        })
    }

    /// Pauses a session that was idle for its idle timeout. `false`: it is in use.
    pub(crate) fn pause_when_idle(&self, id: &SessionId) -> Result<bool> {
        let session = self.session_unused(id)?;
        let is_idle = |record: &SessionRecord| {
            record.state == SessionState::Active
                && record
                    .idle_timeout
                    .is_some_and(|limit| session.activity.idle_for() >= limit)
        };
        if !is_idle(&self.record(id)?) {
            return Ok(false);
        }
        self.require_pause()?;
        let Ok(_entry) = session
            .admission
            .enter_exclusive(ExclusiveWork::Pausing, std::time::Duration::ZERO)
        else {
            return Ok(false);
        };
        let record = self.record(id)?;
        if !is_idle(&record) {
            return Ok(false);
        }
        self.freeze(&session, record.expires)?;
        Ok(true)
    }

    /// Returns the most that the runtime can keep over a pause.
    pub(super) fn best_keep(&self) -> Keep {
        if self.require_pause().is_ok() {
            Keep::Memory
        } else {
            Keep::Files
        }
    }

    /// Pauses an active session and records the pause with a new expiry. The caller holds the
    /// exclusive entry.
    pub(super) fn stop_clock(
        &self,
        session: &Session,
        record: &SessionRecord,
        keep: Keep,
        expires: Option<Timestamp>,
    ) -> Result<()> {
        match keep {
            Keep::Memory => self.freeze(session, expires),
            Keep::Files => self.stop_box_and_unmount(session, record, expires),
        }
    }

    /// Stops the box and unmounts the volume. The pause is recorded first, so that nothing is
    /// stopped for a pause that a crash would lose.
    fn stop_box_and_unmount(
        &self,
        session: &Session,
        record: &SessionRecord,
        expires: Option<Timestamp>,
    ) -> Result<()> {
        let id = &session.id;
        self.state.set_paused(id, expires)?;
        let owners = session
            .stop(StopReason::PausedWithoutMemory)
            .or_else(|error| {
                // The box still runs, so the record must say so.
                self.state.set_expiry(id, record.expires, None)?;
                self.state.set_state(id, record.state).and(Err(error))
            })?;
        let _order = session.order_storage();
        if let Err(error) = self.storage.unmount(id) {
            tracing::warn!(session = %id, error = error.chain(), "could not unmount a paused session");
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
        self.state
            .set_paused(&session.id, expires)
            .inspect_err(|_| {
                clock.set_paused(false);
                if let Some(sandbox) = &sandbox {
                    thaw_surely(session, &**sandbox);
                }
            })
    }

    fn resume(&self, id: &SessionId) -> Result<SessionInfo> {
        let session = self.session(id)?;
        self.paused(id)?;
        let _entry = session
            .admission
            .enter_exclusive(ExclusiveWork::Pausing, self.config.pause_drain_timeout)?;
        let record = self.paused(id)?;
        let sandbox = session.live_sandbox();
        if let Some(sandbox) = &sandbox {
            // The session stays paused, so a partial thaw is undone.
            if let Err(error) = sandbox.thaw()
                && sandbox.is_alive()
            {
                refreeze(&session, &**sandbox);
                return Err(error);
            }
        }
        self.state
            .set_state(id, SessionState::Active)
            .inspect_err(|_| {
                if let Some(sandbox) = &sandbox {
                    refreeze(&session, &**sandbox);
                }
            })?;
        session.processes.clock.set_paused(false);
        self.schedule_janitor(&record);
        self.info(SessionRecord {
            state: SessionState::Active,
            ..record
        })
    }

    /// Returns the record of a paused session.
    fn paused(&self, id: &SessionId) -> Result<SessionRecord> {
        let record = self.record(id)?;
        if record.state == SessionState::Paused {
            return Ok(record);
        }
        let error = Error::new(
            ErrorCode::InvalidState,
            format!("session `{id}` is {}, not paused", record.state),
        );
        Err(match record.state {
            SessionState::Hibernated => {
                error.with_hint(format!("wake it with `sandbar wake {id}`"))
            }
            _ => error,
        })
    }

    /// Refuses if the runtime cannot freeze a box.
    fn require_pause(&self) -> Result<()> {
        match self.runtime.facts().pause.reason() {
            None => Ok(()),
            Some(reason) => Err(Error::new(
                ErrorCode::InvalidState,
                format!("sessions cannot be paused on this host: {reason}"),
            )
            .with_hint("see the capability `pause`")),
        }
    }

    /// Returns the strongest quiescing that the runtime supports.
    fn best_quiesce(&self) -> Quiesce {
        if self.require_pause().is_ok() {
            Quiesce::Always
        } else {
            Quiesce::WhereNeeded
        }
    }

    /// Copies the volume at a snapshot, or a consistent state of it now. The caller holds
    /// `storage_order`.
    pub(super) fn copy_at<T>(
        &self,
        point: &ForkPoint,
        session: &Session,
        record: &SessionRecord,
        copy: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match point {
            ForkPoint::Snapshot(_) => copy(),
            ForkPoint::Now => self.quiesced(session, record, self.best_quiesce(), copy),
        }
    }

    /// Runs `work`, which copies the volume: with the box frozen if that was requested, or if the
    /// storage copies file by file and would otherwise mix states of several moments.
    pub(super) fn quiesced<T>(
        &self,
        session: &Session,
        record: &SessionRecord,
        quiesce: Quiesce,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let needed = self
            .storage
            .facts()
            .constant_time_snapshots
            .reason()
            .is_some();
        match quiesce {
            Quiesce::Always => self.while_frozen(session, record, work),
            Quiesce::WhereNeeded if needed && self.require_pause().is_ok() => {
                self.while_frozen(session, record, work)
            }
            Quiesce::WhereNeeded => work(),
        }
    }

    /// Runs `work` with the box frozen. A session without a box, or a paused one, needs no freeze.
    fn while_frozen<T>(
        &self,
        session: &Session,
        record: &SessionRecord,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let sandbox = session
            .live_sandbox()
            .filter(|_| record.state == SessionState::Active);
        let Some(sandbox) = sandbox else {
            return work();
        };
        self.require_pause()?;
        let _order = session.order_freezing();
        let _stopped = session.processes.clock.hold();
        freeze_or_leave(session, &*sandbox)?;
        let outcome = work();
        // Whether or not the thaw succeeds, the work is done.
        thaw_surely(session, &*sandbox);
        outcome
    }
}

/// Freezes a box, and undoes a partial freeze after a failure. A box that has died counts as
/// frozen.
fn freeze_or_leave(session: &Session, sandbox: &dyn Sandbox) -> Result<()> {
    match sandbox.freeze() {
        Err(error) if sandbox.is_alive() => {
            thaw_surely(session, sandbox);
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Thaws the box of an active session. Repeats once after a failure, then stops the box: an active
/// session must not stay frozen, and the next command starts a new box.
fn thaw_surely(session: &Session, sandbox: &dyn Sandbox) {
    let Err(first) = sandbox.thaw() else { return };
    if !sandbox.is_alive() {
        return;
    }
    tracing::warn!(session = %session.id, error = first.chain(), "could not thaw a sandbox; trying again");
    let Err(second) = sandbox.thaw() else { return };
    tracing::error!(session = %session.id, error = second.chain(), "could not thaw a sandbox; stopping it");
    if let Err(error) = sandbox.stop() {
        tracing::error!(session = %session.id, error = error.chain(), "could not stop a sandbox that stays frozen");
    }
}

/// Freezes the box of a session whose resume failed.
fn refreeze(session: &Session, sandbox: &dyn Sandbox) {
    if let Err(error) = sandbox.freeze() {
        tracing::error!(session = %session.id, error = error.chain(), "could not freeze the sandbox of a session whose resume failed");
    }
}
