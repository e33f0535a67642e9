//! What E2B knows of a sandbox beyond the session it is.

use std::collections::BTreeMap;

use sandbar_core::{Error, Result, SessionId};
use serde::{Deserialize, Serialize};

use crate::surface::Surface;

/// The key of the note a session carries.
pub(crate) const NOTE: &str = "e2b";

/// The user commands and files are for when nobody says otherwise.
pub(crate) const DEFAULT_USER: &str = "user";

/// Kept as JSON in a note of the session. Fields are only ever added, each with a default, so that notes of older hosts
/// can be read.
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
        }
    }
}

impl Surface {
    /// What E2B knows of a session.
    pub(crate) async fn note(&self, session: &SessionId) -> Result<SandboxNote> {
        let Some(text) = self.host.note(session, NOTE).await? else { return Ok(SandboxNote::default()) };
        serde_json::from_str(&text).map_err(|source| {
            Error::internal(format!("what is noted of sandbox `{session}` cannot be read")).with_source(source)
        })
    }

    pub(crate) async fn keep_note(&self, session: &SessionId, note: &SandboxNote) -> Result<()> {
        let text = serde_json::to_string(note)
            .map_err(|source| Error::internal("a sandbox could not be noted").with_source(source))?;
        self.host.put_note(session, NOTE, &text).await
    }
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
