//! Waking paused sandboxes.
//!
//! A paused sandbox does not expire, however long it is not used. The request that wakes it sets a
//! new lifetime.

use std::time::Duration;

use jiff::Timestamp;
use sandbar_core::{
    Error, ErrorCode, Keep, OnExpiry, Result, SessionId, SessionInfo, SessionState,
};

use super::{PausedState, SandboxNote, Sandboxes, end_after};

/// Shortest lifetime of a sandbox woken by a request to a port; less, and it would pause again
/// while its client still works.
const MIN_LIFETIME_AFTER_REQUEST: Duration = Duration::from_mins(1);

/// Lifetime after such a request if the sandbox was created without a timeout.
const DEFAULT_LIFETIME_AFTER_REQUEST: Duration = Duration::from_mins(5);

/// Treatment of the processes of a paused sandbox when it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waking {
    /// Its processes continue.
    Restore,
    /// Its processes are ended; only files remain.
    Reboot,
}

impl SandboxNote {
    /// Returns what happens to the sandbox on expiry.
    pub(crate) fn on_expiry(&self) -> OnExpiry {
        match (self.auto_pause, self.keep_memory) {
            (false, _) => OnExpiry::Destroy,
            (true, true) => OnExpiry::Pause,
            (true, false) => OnExpiry::PauseFiles,
        }
    }

    /// Returns whether waking the sandbox ends its processes.
    fn wakes_without_memory(&self) -> bool {
        match self.paused {
            Some(kept) => kept == PausedState::Files,
            None => self.auto_pause && !self.keep_memory,
        }
    }

    /// Returns the lifetime after a request to a port has woken the sandbox. A paused sandbox that
    /// still expires, because no admin has paused it, keeps its end.
    pub(crate) fn lifetime_after_request(&self, session: &SessionInfo) -> Duration {
        let time = self
            .timeout
            .map_or(DEFAULT_LIFETIME_AFTER_REQUEST, Duration::from_secs)
            .max(MIN_LIFETIME_AFTER_REQUEST);
        match session.expires {
            Some(end) if !self.auto_pause => {
                let left = Duration::try_from(end.duration_since(Timestamp::now()));
                time.min(left.unwrap_or_default())
            }
            _ => time,
        }
    }
}

/// Returns whether a session in this state is listed as a sandbox.
pub(crate) fn is_present(state: SessionState) -> bool {
    !matches!(state, SessionState::Destroying | SessionState::Failed)
}

/// Returns whether a session in this state is paused in the sense of E2B.
pub(crate) fn is_asleep(state: SessionState) -> bool {
    matches!(state, SessionState::Paused | SessionState::Hibernated)
}

impl Sandboxes {
    /// Wakes a sandbox for a request to one of its ports, if it was created with `autoResume`.
    /// Concurrent requests wake it once. `state` is the state the caller has seen. Fails with
    /// `SessionPaused` if the sandbox stays paused, `SessionNotFound` if it is being destroyed.
    pub(crate) async fn wake_for_request(
        &self,
        id: &SessionId,
        note: &SandboxNote,
        state: SessionState,
    ) -> Result<()> {
        if !is_present(state) {
            return Err(Error::new(
                ErrorCode::SessionNotFound,
                format!("sandbox `{id}` is being destroyed"),
            )
            .with_session(id));
        }
        if !is_asleep(state) {
            return Ok(());
        }
        // A request to a port must not end processes; only an explicit resume may.
        if !note.auto_resume || note.wakes_without_memory() {
            return Err(Error::new(
                ErrorCode::SessionPaused,
                format!("sandbox `{id}` is paused"),
            )
            .with_hint("resume it with `Sandbox.connect`"));
        }
        let _lock = self.lock(id).await;
        let session = self.host.get_session(id).await?;
        if is_asleep(session.state) {
            let note = self.note(id).await?;
            self.wake(
                &session,
                note.clone(),
                note.lifetime_after_request(&session),
                Waking::Restore,
            )
            .await?;
        }
        Ok(())
    }

    /// Wakes a paused sandbox. The caller holds its lock.
    pub(crate) async fn wake(
        &self,
        session: &SessionInfo,
        mut note: SandboxNote,
        time: Duration,
        waking: Waking,
    ) -> Result<()> {
        let id = &session.id;
        let end = end_after(time)?;
        let has_no_processes = note.paused == Some(PausedState::Files);
        let reboot = !has_no_processes && (waking == Waking::Reboot || note.wakes_without_memory());
        // Before it runs: a crash of this host must not leave a running sandbox without an expiry.
        self.host
            .set_expiry(id, Some(end), note.on_expiry())
            .await?;
        if let Err(error) = self.resume(session, reboot).await {
            // Still paused: it expires as before.
            self.host.set_expiry(id, session.expires, None).await?;
            return Err(error);
        }
        note.paused = None;
        note.end_at = Some(end);
        self.put_note(id, &note).await?;
        if let Some(start) = note.start.as_ref().filter(|_| has_no_processes || reboot) {
            self.start_program(id, start).await;
        }
        Ok(())
    }

    async fn resume(&self, session: &SessionInfo, reboot: bool) -> Result<()> {
        let id = &session.id;
        if session.state == SessionState::Hibernated {
            return self.host.wake_session(id).await.map(|_| ());
        }
        self.host.resume_session(id).await?;
        if reboot {
            // A second pause that keeps only files ends the frozen processes.
            self.host.pause_session_keeping(id, Keep::Files).await?;
            self.host.resume_session(id).await?;
        }
        Ok(())
    }
}
