//! Resolving the template name in a request.

use axum::http::StatusCode;
use sandbar_core::{BaseName, HOST_BASE};

use super::{
    Templates, catalogue::BuildStatus, errors::not_found, ids::is_internal, name::TemplateName,
    tags::no_tag,
};
use crate::{
    rest::{ApiError, ApiResult},
    sandboxes::{SandboxNote, Template},
};

/// Templates that every E2B account has. They start from [`HOST_BASE`] unless a base has their
/// name.
const RESERVED: [&str; 3] = ["base", "code-interpreter-v1", HOST_BASE];

pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

impl Templates {
    /// Resolves an id, a `name`, `name:tag` or `namespace/name:tag` to a built template, a snapshot
    /// or a base.
    pub(crate) async fn resolve(&self, name: &str) -> ApiResult<Template> {
        if let Some(built) = self.built_template(name).await? {
            return Ok(built);
        }
        if let Some(snapshot) = self.sandboxes.snapshot_template(name).await? {
            return Ok(snapshot);
        }
        self.base_template(name).await
    }

    /// Returns a template that was built here; `None` if there is none with this name.
    async fn built_template(&self, text: &str) -> ApiResult<Option<Template>> {
        let Ok(name) = TemplateName::parse(text) else {
            return Ok(None);
        };
        let contents = self.store().await?.catalogue.view();
        let Some((id, template)) = contents.template(&name.name) else {
            return Ok(None);
        };
        let build = template
            .tags
            .get(name.tag())
            .and_then(|build| template.builds.get(build));
        let build = match (build, &name.tag) {
            (Some(build), _) => build,
            (None, Some(_)) => return Err(no_tag(&name)),
            // Without a tag in the request, any ready build will do.
            (None, None) => {
                let named = template
                    .tags
                    .values()
                    .filter_map(|build| template.builds.get(build));
                let ready = named.filter(|build| build.status == BuildStatus::Ready);
                ready
                    .max_by_key(|build| build.created)
                    .ok_or_else(|| not_ready(&name.name))?
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
        Ok(Some(Template {
            id: id.to_owned(),
            alias: template.name.clone(),
            base,
            defaults,
        }))
    }

    /// Returns a base of the host, or the stand-in for a template of E2B.
    async fn base_template(&self, text: &str) -> ApiResult<Template> {
        // Names of bases are case-sensitive.
        let plain = text.trim().rsplit('/').next().unwrap_or_default();
        let plain = plain
            .strip_suffix(":default")
            .or_else(|| plain.strip_suffix(":latest"))
            .unwrap_or(plain);
        let bases = self.host.list_bases().await?;
        let known = bases
            .into_iter()
            .map(|base| base.name)
            .find(|base| base.as_str() == plain && !is_internal(base));
        let base = match known {
            Some(base) => base,
            None if is_reserved(&plain.to_lowercase()) => BaseName::new(HOST_BASE)?,
            None => return Err(not_found(text)),
        };
        Ok(Template {
            id: plain.to_owned(),
            alias: Some(plain.to_owned()),
            base,
            defaults: SandboxNote::default(),
        })
    }
}

fn not_ready(name: &str) -> ApiError {
    let why = format!("template '{name}' has no ready build (build it with `Template.build`)");
    ApiError::new(StatusCode::NOT_FOUND, why)
}
