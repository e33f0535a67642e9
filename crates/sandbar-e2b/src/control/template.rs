//! What a sandbox is made from.

use axum::http::StatusCode;
use sandbar_core::BaseName;

use super::Answer;
use crate::{answer::ControlError, sandbox::SandboxNote, surface::Surface};

/// Templates every account of E2B has. Here they are this machine's own programs, unless there is a base of the name; the
/// code interpreter is in every sandbox that has Python.
const USUAL: [&str; 2] = ["base", "code-interpreter-v1"];
const HOST_BASE: &str = "host";

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
        let plain = name.rsplit('/').next().unwrap_or(name);
        let plain = plain.strip_suffix(":default").or_else(|| plain.strip_suffix(":latest")).unwrap_or(plain);
        let bases = self.host.list_bases().await?;
        let base = bases.into_iter().map(|base| base.name).find(|base| base.as_str() == plain);
        let base = match base {
            Some(base) => base,
            None if USUAL.contains(&plain) || plain == HOST_BASE => BaseName::new(HOST_BASE)?,
            None => return Err(no_template(name)),
        };
        Ok(Template { base, id: plain.to_owned(), alias: Some(plain.to_owned()), defaults: SandboxNote::default() })
    }
}

fn no_template(name: &str) -> ControlError {
    let why = format!(
        "template '{}' not found (use `base`, the id of a snapshot, or build one with `Template.build`)",
        name.escape_debug()
    );
    ControlError::new(StatusCode::NOT_FOUND, why)
}
