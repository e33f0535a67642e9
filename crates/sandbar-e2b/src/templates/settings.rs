//! Settings that sandboxes of a template start with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sandboxes::{DEFAULT_USER, SandboxNote, StartCommand};

/// Result of the steps so far. Stored with every build and layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Settings {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) user: String,
    /// Home of the user if absent.
    pub(crate) workdir: Option<String>,
    pub(crate) start: Option<StartCommand>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            env: BTreeMap::new(),
            user: DEFAULT_USER.into(),
            workdir: None,
            start: None,
        }
    }
}

impl From<SandboxNote> for Settings {
    fn from(note: SandboxNote) -> Self {
        Self {
            env: note.env,
            user: note.user,
            workdir: note.workdir,
            start: note.start,
        }
    }
}

impl Settings {
    /// Adds a start command, which runs with the current settings.
    pub(crate) fn with_start(mut self, start: &str, ready: &str) -> Self {
        if !start.is_empty() || !ready.is_empty() {
            self.start = Some(StartCommand {
                start: start.to_owned(),
                ready: ready.to_owned(),
                env: self.env.clone(),
                user: self.user.clone(),
                workdir: self.workdir.clone(),
            });
        }
        self
    }
}
