//! When a sandbox expires.

use std::time::Duration;

use jiff::Timestamp;
use sandbar_core::{Error, Result, SessionId};

use super::{SandboxNote, Sandboxes, is_asleep};

/// Outcome of [`Sandboxes::set_end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extended {
    Runs,
    /// The sandbox expired just before, and is paused.
    FellAsleep,
}

impl Sandboxes {
    /// Sets when a sandbox expires. The caller holds its lock.
    pub(crate) async fn set_end(
        &self,
        id: &SessionId,
        before: SandboxNote,
        end: Timestamp,
    ) -> Result<Extended> {
        let note = SandboxNote {
            end_at: Some(end),
            ..before.clone()
        };
        // The note first: once the expiry is set, the sandbox may be destroyed at any moment.
        self.put_note(id, &note).await?;
        let session = self
            .host
            .set_expiry(id, Some(end), note.on_expiry())
            .await?;
        if !is_asleep(session.state) {
            return Ok(Extended::Runs);
        }
        // A paused sandbox does not expire.
        self.host.set_expiry(id, None, None).await?;
        self.put_note(id, &before).await?;
        Ok(Extended::FellAsleep)
    }
}

/// Returns the timestamp this long from now.
pub(crate) fn end_after(time: Duration) -> Result<Timestamp> {
    Timestamp::now().checked_add(time).map_err(|source| {
        Error::invalid("timeout", "timeout is too long")
            .with_hint("use less than a century")
            .with_source(source)
    })
}
