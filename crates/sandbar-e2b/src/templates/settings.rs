//! What sandboxes from a template begin with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sandbox::{DEFAULT_USER, SandboxNote};

/// What the steps of a template have set. Kept with every build, and with every layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Settings {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) user: String,
    /// The home of the user when absent.
    pub(crate) workdir: Option<String>,
    pub(crate) start: Option<StartCommand>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { env: BTreeMap::new(), user: DEFAULT_USER.into(), workdir: None, start: None }
    }
}

impl From<SandboxNote> for Settings {
    fn from(note: SandboxNote) -> Self {
        Self { env: note.env, user: note.user, workdir: note.workdir, start: note.start }
    }
}

/// A program every sandbox of a template runs from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StartCommand {
    /// A line for a shell; empty where there is only something to wait for.
    pub(crate) start: String,
    /// Succeeds when it is ready; empty where nobody says.
    pub(crate) ready: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) user: String,
    pub(crate) workdir: Option<String>,
}

impl Settings {
    /// With another program to start, which finds what is set now.
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
