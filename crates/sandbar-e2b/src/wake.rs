//! Sandboxes that sleep, and who wakes them.
//!
//! A sandbox that is paused has no end: nothing is deleted because nobody came. Whoever wakes it says how long it has.

use std::time::Duration;

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode, Keep, OnExpiry, Result, SessionId, SessionInfo, SessionState};

use crate::{
    sandbox::{Kept, SandboxNote},
    surface::Surface,
};

/// A sandbox that was woken by a request has at least so long, or it would fall asleep again under its visitors.
const LEAST_AFTER_A_REQUEST: Duration = Duration::from_mins(1);

/// What one has that was made without saying how long.
const USUAL_AFTER_A_REQUEST: Duration = Duration::from_mins(5);

/// How a sandbox comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waking {
    /// What ran in it goes on.
    Restore,
    /// Nothing of what ran in it is left.
    Reboot,
}

impl SandboxNote {
    /// What becomes of the sandbox when its time is up.
    pub(crate) fn on_expiry(&self) -> OnExpiry {
        match (self.auto_pause, self.keep_memory) {
            (false, _) => OnExpiry::Destroy,
            (true, true) => OnExpiry::Pause,
            (true, false) => OnExpiry::PauseFiles,
        }
    }

    /// Whether what ran in it is not to be there when it wakes up.
    fn wakes_without_memory(&self) -> bool {
        match self.paused {
            Some(kept) => kept == Kept::Files,
            None => self.auto_pause && !self.keep_memory,
        }
    }

    /// How long a request that wakes it gives it.
    pub(crate) fn time_after_a_request(&self) -> Duration {
        self.timeout.map_or(USUAL_AFTER_A_REQUEST, Duration::from_secs).max(LEAST_AFTER_A_REQUEST)
    }
}

/// Whether a session in this state is a sandbox somebody can work with.
pub(crate) fn is_there(state: SessionState) -> bool {
    !matches!(state, SessionState::Destroying | SessionState::Failed)
}

/// Whether a session in this state sleeps.
pub(crate) fn is_asleep(state: SessionState) -> bool {
    matches!(state, SessionState::Paused | SessionState::Hibernated)
}

impl Surface {
    /// Wakes a sandbox that somebody sends a request to, where it was made to be woken so. However many come at once, it
    /// is woken once. `SessionPaused` when it sleeps on, `SessionNotFound` when it is about to go; the caller has found it in
    /// `state`.
    pub(crate) async fn wake_for_request(&self, id: &SessionId, note: &SandboxNote, state: SessionState) -> Result<()> {
        if !is_there(state) {
            return Err(Error::new(ErrorCode::SessionNotFound, format!("sandbox `{id}` is about to go")));
        }
        if !is_asleep(state) {
            return Ok(());
        }
        // A request must not lose what ran in it; that is for whoever knows that it does.
        if !note.auto_resume || note.wakes_without_memory() {
            return Err(Error::new(ErrorCode::SessionPaused, format!("sandbox `{id}` is paused"))
                .with_hint("resume it with `Sandbox.connect`"));
        }
        let _turn = self.turns.take(id).await;
        let session = self.host.get_session(id).await?;
        if is_asleep(session.state) {
            let note = self.note(id).await?;
            self.wake(&session, note.clone(), note.time_after_a_request(), Waking::Restore).await?;
        }
        Ok(())
    }

    /// Wakes a sandbox that sleeps. The caller has its turn.
    pub(crate) async fn wake(
        &self,
        session: &SessionInfo,
        mut note: SandboxNote,
        time: Duration,
        waking: Waking,
    ) -> Result<()> {
        let id = &session.id;
        let end = end_after(time)?;
        let is_down = note.paused == Some(Kept::Files);
        let reboot = !is_down && (waking == Waking::Reboot || note.wakes_without_memory());
        // Before it runs: one that runs has an end, whatever becomes of this host meanwhile.
        self.host.set_expiry(id, Some(end), note.on_expiry()).await?;
        if let Err(error) = self.bring_back(session, reboot).await {
            // Asleep, it has none.
            self.host.set_expiry(id, None, None).await?;
            return Err(error);
        }
        note.paused = None;
        note.end_at = Some(end);
        self.keep_note(id, &note).await?;
        if let Some(start) = note.start.as_ref().filter(|_| is_down || reboot) {
            self.start_program(id, start).await;
        }
        Ok(())
    }

    async fn bring_back(&self, session: &SessionInfo, reboot: bool) -> Result<()> {
        let id = &session.id;
        if session.state == SessionState::Hibernated {
            return self.host.wake_session(id).await.map(|_| ());
        }
        self.host.resume_session(id).await?;
        if reboot {
            // What was frozen with it is let go by pausing once more without it.
            self.host.pause_session_keeping(id, Keep::Files).await?;
            self.host.resume_session(id).await?;
        }
        Ok(())
    }
}

/// The moment so long from now.
pub(crate) fn end_after(time: Duration) -> Result<Timestamp> {
    Timestamp::now().checked_add(time).map_err(|source| {
        Error::invalid("timeout", "the time is too long").with_hint("use less than a century").with_source(source)
    })
}
