//! What E2B knows of a sandbox beyond the session it is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandbar_core::{Error, Result, SessionId};
use serde::{Deserialize, Serialize};

use crate::{control::NetworkConfig, surface::Surface, templates::StartCommand};

/// The key of the note a session carries.
pub(crate) const NOTE: &str = "e2b";

/// The user commands and files are for when nobody says otherwise.
pub(crate) const DEFAULT_USER: &str = "user";

/// Kept as JSON in a note of the session. Fields are only ever added, each with a default, so that notes of older hosts
/// can be read.
#[expect(clippy::struct_excessive_bools, reason = "what E2B asks about a sandbox")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SandboxNote {
    /// What it was made from, by its id and by the name the caller used.
    pub(crate) template: String,
    pub(crate) alias: Option<String>,
    /// envd asks for the access token.
    pub(crate) secure: bool,
    /// A request to a paused sandbox wakes it.
    pub(crate) auto_resume: bool,
    /// Paused instead of killed when its time is up.
    pub(crate) auto_pause: bool,
    pub(crate) user: String,
    /// The directory commands start in when it is not the home of their user.
    pub(crate) workdir: Option<String>,
    /// Variables of the caller; the session has them as well.
    pub(crate) env: BTreeMap<String, String>,
    /// With `auto_pause`: what runs in it is kept as well.
    pub(crate) keep_memory: bool,
    /// What it kept when somebody paused it; absent while it runs, and when it was paused because its time was up.
    pub(crate) paused: Option<Kept>,
    /// Seconds it was made for.
    pub(crate) timeout: Option<u64>,
    /// When its time was up last, or it was paused.
    pub(crate) end_at: Option<Timestamp>,
    /// `allow_internet_access`, where it was said.
    pub(crate) internet: Option<bool>,
    pub(crate) network: Option<NetworkConfig>,
    /// The program of its template, which runs in it from the beginning.
    pub(crate) start: Option<StartCommand>,
    /// Limits its template gives it.
    pub(crate) cpu_count: Option<u32>,
    pub(crate) memory_mb: Option<u32>,
    /// What the request it was made by says, for one that comes again with the same `Idempotency-Key`.
    pub(crate) request: Option<String>,
}

/// What a paused sandbox has kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Kept {
    Memory,
    Files,
}

impl Default for SandboxNote {
    /// For a session that was not made by an E2B SDK.
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

impl Surface {
    /// What E2B knows of a session.
    pub(crate) async fn note(&self, session: &SessionId) -> Result<SandboxNote> {
        Ok(self.known_note(session).await?.unwrap_or_default())
    }

    /// The same; `None` for a session that no E2B client made.
    pub(crate) async fn known_note(&self, session: &SessionId) -> Result<Option<SandboxNote>> {
        self.host.note(session, NOTE).await?.map(|text| read(session, &text)).transpose()
    }

    /// What E2B knows of all sessions that have a note.
    pub(crate) async fn notes(&self) -> Result<BTreeMap<SessionId, SandboxNote>> {
        let notes = self.host.notes(NOTE).await?;
        notes.into_iter().map(|(session, text)| read(&session, &text).map(|note| (session, note))).collect()
    }

    /// Keeps what E2B knows of a session. Who changes what is there already has its turn.
    pub(crate) async fn keep_note(&self, session: &SessionId, note: &SandboxNote) -> Result<()> {
        let text = serde_json::to_string(note)
            .map_err(|source| Error::internal("a sandbox could not be noted").with_source(source))?;
        self.host.put_note(session, NOTE, &text).await
    }
}

fn read(session: &SessionId, text: &str) -> Result<SandboxNote> {
    serde_json::from_str(text).map_err(|source| {
        Error::internal(format!("what is noted of sandbox `{session}` cannot be read")).with_source(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_an_older_host_has_defaults_for_what_it_lacks() {
        let note: SandboxNote = serde_json::from_str(r#"{"template":"t1","unknown":1}"#).unwrap();
        assert_eq!(note, SandboxNote { template: "t1".into(), ..SandboxNote::default() });
    }
}
