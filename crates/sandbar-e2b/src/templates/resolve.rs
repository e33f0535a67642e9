//! What a sandbox is made from, by the name somebody uses.

use sandbar_core::BaseName;

use super::{
    Answer, catalogue::BuildStatus, name::TemplateName, not_found, settings::Settings, tags::no_tag, with_status,
};
use crate::surface::Surface;

/// This machine's own programs: what E2B's own templates are here, unless there is a base of their name.
const HOST_BASE: &str = "host";
/// Templates every account of E2B has.
const RESERVED: [&str; 3] = ["base", "code-interpreter-v1", HOST_BASE];

pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// A template that was found.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) id: String,
    pub(crate) alias: Option<String>,
    pub(crate) base: BaseName,
    pub(crate) settings: Settings,
    /// What the template asks for; absent where it is none of `Template.build`.
    pub(crate) cpu_count: Option<u32>,
    pub(crate) memory_mb: Option<u32>,
}

impl Surface {
    /// The template of an id, a name, `name:tag` or `namespace/name:tag`; a base of the host by its name, which is what
    /// snapshots are kept as.
    pub(crate) async fn resolve_template(&self, text: &str) -> Answer<Resolved> {
        let name = TemplateName::parse(text).map_err(|_| not_found(text))?;
        if let Some(resolved) = self.resolve_built(&name).await? {
            return Ok(resolved);
        }
        // A base has the case it was given.
        let plain = text.trim().rsplit('/').next().unwrap_or_default();
        let plain = plain.strip_suffix(":default").or_else(|| plain.strip_suffix(":latest")).unwrap_or(plain);
        let bases = self.host.list_bases().await?;
        let known = bases.into_iter().map(|base| base.name).find(|base| base.as_str() == plain && !is_internal(base));
        let base = match known {
            Some(base) => base,
            None if is_reserved(&name.name) => BaseName::new(HOST_BASE)?,
            None => return Err(not_found(text)),
        };
        let settings = Settings::default();
        let alias = Some(plain.to_owned());
        Ok(Resolved { id: plain.to_owned(), alias, base, settings, cpu_count: None, memory_mb: None })
    }

    async fn resolve_built(&self, name: &TemplateName) -> Answer<Option<Resolved>> {
        let contents = self.templates().await?.catalogue.view();
        let Some((id, template)) = contents.template(&name.name) else { return Ok(None) };
        let build = template.tags.get(name.tag()).and_then(|build| template.builds.get(build));
        // One that has only other tags is found by its plain name too.
        let build = match (build, &name.tag) {
            (Some(build), _) => build,
            (None, None) if !template.tags.is_empty() => {
                let ready = template.builds.values().filter(|build| build.status == BuildStatus::Ready);
                ready.max_by_key(|build| build.created).ok_or_else(|| not_ready(&name.name))?
            }
            (None, None) => return Err(not_ready(&name.name)),
            (None, Some(_)) => return Err(no_tag(name)),
        };
        let base = build.base.clone().ok_or_else(|| not_ready(&name.name))?;
        Ok(Some(Resolved {
            id: id.to_owned(),
            alias: template.name.clone(),
            base,
            settings: build.settings.clone(),
            cpu_count: Some(build.cpu_count),
            memory_mb: Some(build.memory_mb),
        }))
    }
}

fn not_ready(name: &str) -> super::ControlError {
    let why = format!("template '{name}' has no build that is ready (build it with `Template.build`)");
    with_status(axum::http::StatusCode::NOT_FOUND, why)
}

/// Bases builds keep for themselves.
pub(super) fn is_internal(base: &BaseName) -> bool {
    super::INTERNAL.iter().any(|prefix| base.as_str().starts_with(prefix))
}
