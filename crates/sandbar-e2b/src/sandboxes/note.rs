//! The note with everything E2B stores about a sandbox beyond its session.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandbar_core::{Error, Result, SessionId};
use serde::{Deserialize, Serialize};

use super::{NetworkConfig, Sandboxes, StartCommand};

/// Key of the note on a session.
const NOTE: &str = "e2b";

/// User of commands and files if a request names none.
pub(crate) const DEFAULT_USER: &str = "user";

/// Stored as JSON in a note of the session. Fields are only ever added, each with a default, so
/// that notes of older hosts stay readable.
#[expect(clippy::struct_excessive_bools, reason = "options of the E2B API")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SandboxNote {
    /// Template it was created from: its id, and the name the caller used.
    pub(crate) template: String,
    pub(crate) alias: Option<String>,
    /// envd requires the access token.
    pub(crate) secure: bool,
    /// A request to a paused sandbox wakes it.
    pub(crate) auto_resume: bool,
    /// Paused instead of killed on expiry.
    pub(crate) auto_pause: bool,
    pub(crate) user: String,
    /// Working directory of commands; the home of their user if absent.
    pub(crate) workdir: Option<String>,
    /// Environment variables of the creator; the session has them as well.
    pub(crate) env: BTreeMap<String, String>,
    /// With `auto_pause`: processes are frozen instead of ended.
    pub(crate) keep_memory: bool,
    /// State kept by a caller's pause; absent while it runs, and after a pause by expiry.
    pub(crate) paused: Option<PausedState>,
    /// Requested lifetime in seconds.
    pub(crate) timeout: Option<u64>,
    /// Last known end of its lifetime, or when it was paused.
    pub(crate) end_at: Option<Timestamp>,
    /// `allow_internet_access`, if the request had it.
    pub(crate) internet: Option<bool>,
    pub(crate) network: Option<NetworkConfig>,
    /// Start command of its template.
    pub(crate) start: Option<StartCommand>,
    /// Resource limits of its template.
    pub(crate) cpu_count: Option<u32>,
    pub(crate) memory_mb: Option<u32>,
    /// Fingerprint of the create request, compared with a retry that has the same
    /// `Idempotency-Key`.
    pub(crate) request: Option<String>,
}

/// State a paused sandbox keeps. The variants are part of the stored format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PausedState {
    Memory,
    Files,
}

impl Default for SandboxNote {
    /// Returns the note of a session that was not created through the E2B API.
    fn default() -> Self {
        Self {
            template: "base".into(),
            alias: None,
            secure: true,
            auto_resume: false,
            auto_pause: false,
            user: DEFAULT_USER.into(),
            workdir: None,
            env: BTreeMap::new(),
            keep_memory: true,
            paused: None,
            timeout: None,
            end_at: None,
            internet: None,
            network: None,
            start: None,
            cpu_count: None,
            memory_mb: None,
            request: None,
        }
    }
}

impl Sandboxes {
    /// Returns the note of a session, or the default one.
    pub(crate) async fn note(&self, session: &SessionId) -> Result<SandboxNote> {
        Ok(self.stored_note(session).await?.unwrap_or_default())
    }

    /// Returns the note of a session; `None` if it was not created through the E2B API.
    pub(crate) async fn stored_note(&self, session: &SessionId) -> Result<Option<SandboxNote>> {
        self.host
            .note(session, NOTE)
            .await?
            .map(|text| read(session, &text))
            .transpose()
    }

    /// Returns the notes of all sessions that have one.
    pub(crate) async fn notes(&self) -> Result<BTreeMap<SessionId, SandboxNote>> {
        let notes = self.host.notes(NOTE).await?;
        notes
            .into_iter()
            .map(|(session, text)| read(&session, &text).map(|note| (session, note)))
            .collect()
    }

    /// Stores the note of a session. The caller holds its lock, except right after creation.
    pub(crate) async fn put_note(&self, session: &SessionId, note: &SandboxNote) -> Result<()> {
        let text = serde_json::to_string(note).map_err(|source| {
            Error::internal("note of a sandbox could not be serialised").with_source(source)
        })?;
        self.host.put_note(session, NOTE, &text).await
    }
}

fn read(session: &SessionId, text: &str) -> Result<SandboxNote> {
    serde_json::from_str(text).map_err(|source| {
        Error::internal(format!("note of sandbox `{session}` cannot be parsed")).with_source(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_of_an_older_host_has_defaults_for_new_fields() {
        let note: SandboxNote = serde_json::from_str(r#"{"template":"t1","unknown":1}"#).unwrap();
        assert_eq!(
            note,
            SandboxNote {
                template: "t1".into(),
                ..SandboxNote::default()
            }
        );
    }
}
