//! What a sandbox is made from, by the name somebody uses.

use sandbar_core::BaseName;

use super::{Answer, catalogue::BuildStatus, name::TemplateName, not_found, tags::no_tag, with_status};
use crate::{control::Template, sandbox::SandboxNote, surface::Surface};

/// This machine's own programs: what E2B's own templates are here, unless there is a base of their name.
const HOST_BASE: &str = "host";
/// Templates every account of E2B has.
const RESERVED: [&str; 3] = ["base", "code-interpreter-v1", HOST_BASE];

pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

impl Surface {
    /// A template that was built here; `None` when there is none of this name.
    pub(crate) async fn built_template(&self, text: &str) -> Answer<Option<Template>> {
        let Ok(name) = TemplateName::parse(text) else { return Ok(None) };
        let contents = self.templates().await?.catalogue.view();
        let Some((id, template)) = contents.template(&name.name) else { return Ok(None) };
        let build = template.tags.get(name.tag()).and_then(|build| template.builds.get(build));
        let build = match (build, &name.tag) {
            (Some(build), _) => build,
            (None, Some(_)) => return Err(no_tag(&name)),
            // One that has only other tags is found by its plain name too.
            (None, None) => {
                let named = template.tags.values().filter_map(|build| template.builds.get(build));
                let ready = named.filter(|build| build.status == BuildStatus::Ready);
                ready.max_by_key(|build| build.created).ok_or_else(|| not_ready(&name.name))?
            }
        };
        let defaults = SandboxNote {
            user: build.settings.user.clone(),
            workdir: build.settings.workdir.clone(),
            env: build.settings.env.clone(),
            start: build.settings.start.clone(),
            cpu_count: Some(build.cpu_count),
            memory_mb: Some(build.memory_mb),
            ..SandboxNote::default()
        };
        let base = build.base.clone().ok_or_else(|| not_ready(&name.name))?;
        Ok(Some(Template { id: id.to_owned(), alias: template.name.clone(), base, defaults }))
    }

    /// A base of the host by its name, and the templates every account of E2B has.
    pub(crate) async fn base_template(&self, text: &str) -> Answer<Template> {
        // A base has the case it was given.
        let plain = text.trim().rsplit('/').next().unwrap_or_default();
        let plain = plain.strip_suffix(":default").or_else(|| plain.strip_suffix(":latest")).unwrap_or(plain);
        let bases = self.host.list_bases().await?;
        let known = bases.into_iter().map(|base| base.name).find(|base| base.as_str() == plain && !is_internal(base));
        let base = match known {
            Some(base) => base,
            None if is_reserved(&plain.to_lowercase()) => BaseName::new(HOST_BASE)?,
            None => return Err(not_found(text)),
        };
        Ok(Template { id: plain.to_owned(), alias: Some(plain.to_owned()), base, defaults: SandboxNote::default() })
    }
}

fn not_ready(name: &str) -> super::ControlError {
    let why = format!("template '{name}' has no build that is ready (build it with `Template.build`)");
    with_status(axum::http::StatusCode::NOT_FOUND, why)
}

/// Bases builds keep for themselves.
fn is_internal(base: &BaseName) -> bool {
    super::INTERNAL.iter().any(|prefix| base.as_str().starts_with(prefix))
}
