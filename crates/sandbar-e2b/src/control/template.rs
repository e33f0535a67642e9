//! What a sandbox is made from.

use sandbar_core::BaseName;

use super::Answer;
use crate::{sandbox::SandboxNote, surface::Surface};

/// What a sandbox is made from.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) base: BaseName,
    /// What it is called when somebody asks about the sandbox.
    pub(crate) id: String,
    pub(crate) alias: Option<String>,
    /// What sandboxes from it begin with.
    pub(crate) defaults: SandboxNote,
}

impl Surface {
    /// The template of an id, a `name`, `name:tag` or `namespace/name:tag`: one that was built, a snapshot, or a base.
    pub(crate) async fn template(&self, name: &str) -> Answer<Template> {
        if let Some(built) = self.built_template(name).await? {
            return Ok(built);
        }
        if let Some(snapshot) = self.snapshot_template(name).await? {
            return Ok(snapshot);
        }
        self.base_template(name).await
    }
}
