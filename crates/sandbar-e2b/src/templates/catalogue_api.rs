//! Calls that list, get, update and delete templates.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Extension,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode},
};
use jiff::Timestamp;
use sandbar_core::{BaseName, Error, ErrorCode, Need};
use serde_json::{Value, json};

use super::{
    Templates,
    catalogue::{BuildRecord, BuildStatus, Contents, TemplateRecord},
    errors::not_found,
    name::{DEFAULT_TAG, TemplateName},
    resolve::is_reserved,
};
use crate::{
    auth::ApiCaller,
    protocol::{ENVD_VERSION, NEXT_TOKEN},
    rest::{ApiError, ApiResult, Fields, Json, Query, bad_request},
};

const MAX_PAGE_SIZE: usize = 100;

/// Returns a template as an element of a listing.
pub(super) fn described(id: &str, template: &TemplateRecord, size_mb: u64) -> Value {
    let build = shown_build(template);
    let (build_id, build) = build.map_or(("", None), |(id, build)| (id, Some(build)));
    let names: Vec<&String> = template.name.iter().collect();
    json!({
        "templateID": id,
        "buildID": build_id,
        "cpuCount": build.map_or(1, |build| build.cpu_count),
        "memoryMB": build.map_or(512, |build| build.memory_mb),
        "diskSizeMB": size_mb,
        "public": template.public,
        "aliases": names,
        "names": names,
        "createdAt": template.created.to_string(),
        "updatedAt": template.updated.to_string(),
        "createdBy": null,
        "lastSpawnedAt": null,
        "spawnCount": 0,
        "buildCount": template.builds.len(),
        "envdVersion": ENVD_VERSION,
        "buildStatus": build.map_or(BuildStatus::Waiting, |build| build.status),
    })
}

/// Returns the build that represents a template: a tagged one, or else the newest.
fn shown_build(template: &TemplateRecord) -> Option<(&str, &BuildRecord)> {
    let tagged = template
        .tags
        .get(DEFAULT_TAG)
        .or_else(|| template.tags.values().next());
    let tagged = tagged.and_then(|id| template.builds.get_key_value(id));
    let newest = || {
        template
            .builds
            .iter()
            .max_by_key(|(_, build)| build.created)
    };
    tagged
        .or_else(newest)
        .map(|(id, build)| (id.as_str(), build))
}

impl Templates {
    /// Returns all templates with their sizes, oldest first.
    async fn described_templates(&self) -> ApiResult<Vec<Value>> {
        let contents = self.store().await?.catalogue.view();
        let sizes: HashMap<BaseName, u64> = self
            .host
            .list_bases()
            .await?
            .into_iter()
            .map(|base| (base.name, base.size.get().div_ceil(1024 * 1024)))
            .collect();
        let size = |template: &TemplateRecord| {
            let base = shown_build(template).and_then(|(_, build)| build.base.as_ref());
            base.and_then(|base| sizes.get(base))
                .copied()
                .unwrap_or_default()
        };
        let mut all: Vec<_> = contents.templates.iter().collect();
        all.sort_by_key(|(id, template)| (template.created, (*id).clone()));
        Ok(all
            .into_iter()
            .map(|(id, template)| described(id, template, size(template)))
            .collect())
    }
}

/// `GET /templates`.
pub(super) async fn list(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
) -> ApiResult<Json<Value>> {
    caller.require(Need::Read)?;
    Ok(Json(Value::Array(templates.described_templates().await?)))
}

/// `GET /v2/templates`, a page at a time.
pub(super) async fn list_page(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    query: Query,
) -> ApiResult<(HeaderMap, Json<Value>)> {
    caller.require(Need::Read)?;
    let all = templates.described_templates().await?;
    let from = match query.text("nextToken") {
        None => 0,
        Some(token) => {
            let after = all
                .iter()
                .position(|template| template["templateID"] == token);
            after.ok_or_else(|| bad_request("`nextToken` is not valid (start again without it)"))?
                + 1
        }
    };
    let limit = query
        .number("limit", 1, MAX_PAGE_SIZE as u64)?
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(MAX_PAGE_SIZE);
    let page: Vec<Value> = all[from..].iter().take(limit).cloned().collect();
    let mut headers = HeaderMap::new();
    if from + page.len() < all.len()
        && let Some(last) = page
            .last()
            .and_then(|template| template["templateID"].as_str())
        && let Ok(token) = HeaderValue::from_str(last)
    {
        headers.insert(NEXT_TOKEN, token);
    }
    Ok((headers, Json(Value::Array(page))))
}

/// `GET /templates/{id}`: with its builds.
pub(super) async fn get(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    caller.require(Need::Read)?;
    let contents = templates.store().await?.catalogue.view();
    let (id, template) = in_catalogue(&contents, &id)?;
    let builds: Vec<Value> = template
        .builds
        .iter()
        .map(|(id, build)| {
            json!({
                "buildID": id,
                "status": build.status,
                "createdAt": build.created.to_string(),
                "updatedAt": build.updated.to_string(),
                "finishedAt": build.finished.unwrap_or(build.updated).to_string(),
                "cpuCount": build.cpu_count,
                "memoryMB": build.memory_mb,
                "envdVersion": ENVD_VERSION,
            })
        })
        .collect();
    let mut answer = described(id, template, 0);
    answer["builds"] = builds.into();
    Ok(Json(answer))
}

fn in_catalogue<'a>(
    contents: &'a Contents,
    text: &str,
) -> ApiResult<(&'a str, &'a TemplateRecord)> {
    let name = TemplateName::parse(text)?;
    contents.template(&name.name).ok_or_else(|| not_found(text))
}

/// `GET /templates/aliases/{alias}`: whether a name is taken.
pub(super) async fn get_alias(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    Path(alias): Path<String>,
) -> ApiResult<Json<Value>> {
    caller.require(Need::Read)?;
    let contents = templates.store().await?.catalogue.view();
    if let Ok((id, template)) = in_catalogue(&contents, &alias) {
        return Ok(Json(json!({ "templateID": id, "public": template.public })));
    }
    let found = templates.resolve(&alias).await?;
    Ok(Json(
        json!({ "templateID": found.id, "public": is_reserved(&found.id) }),
    ))
}

/// `PATCH /templates/{id}`.
pub(super) async fn update(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<Json<Value>> {
    caller.require(Need::Admin)?;
    let public: Option<bool> = fields.take("public")?;
    let catalogue = &templates.store().await?.catalogue;
    let names = catalogue
        .change(|contents| {
            let (found, _) = in_catalogue(contents, &id)?;
            let found = found.to_owned();
            let template = contents
                .templates
                .get_mut(&found)
                .ok_or_else(|| not_found(&id))?;
            template.public = public.unwrap_or(template.public);
            template.updated = Timestamp::now();
            ApiResult::Ok(template.name.iter().cloned().collect::<Vec<_>>())
        })
        .await?;
    Ok(Json(json!({ "names": names })))
}

/// `DELETE /templates/{id}`: deletes a template with all its builds, or a base.
pub(super) async fn delete(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    Path(text): Path<String>,
) -> ApiResult<StatusCode> {
    caller.require(Need::Admin)?;
    let name = TemplateName::parse(&text)?;
    if is_reserved(&name.name) {
        let why = format!("template '{}' is built in and cannot be deleted", name.name);
        return Err(ApiError::new(StatusCode::FORBIDDEN, why));
    }
    let store = templates.store().await?;
    let known = store
        .catalogue
        .view()
        .template(&name.name)
        .map(|(id, _)| id.to_owned());
    let Some(id) = known else {
        let base = BaseName::new(name.name.clone()).map_err(|_| not_found(&text))?;
        return match templates.host.delete_base(&base).await {
            Ok(()) => Ok(StatusCode::NO_CONTENT),
            Err(error) if error.code() == ErrorCode::BaseNotFound => Err(not_found(&text)),
            Err(error) => Err(error.into()),
        };
    };
    let removed = store
        .catalogue
        .change(|contents| Result::<_, Error>::Ok(contents.remove_template(&id)))
        .await?;
    for build in removed.iter().flat_map(|template| template.builds.keys()) {
        store.builds.cancel(build);
    }
    templates.remove_leftover().await;
    Ok(StatusCode::NO_CONTENT)
}
