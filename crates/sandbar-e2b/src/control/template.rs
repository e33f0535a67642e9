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
    /// The template of a name: `name`, `name:tag` or `namespace/name:tag`.
    pub(crate) async fn template(&self, name: &str) -> Answer<Template> {
        let found = self.resolve_template(name).await?;
        let defaults = SandboxNote {
            user: found.settings.user,
            workdir: found.settings.workdir,
            env: found.settings.env,
            start: found.settings.start,
            cpu_count: found.cpu_count,
            memory_mb: found.memory_mb,
            ..SandboxNote::default()
        };
        Ok(Template { base: found.base, id: found.id, alias: found.alias, defaults })
    }
}
