//! Tags of builds.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::Need;
use serde_json::{Value, json};

use super::{
    Templates,
    errors::not_found,
    name::{DEFAULT_TAG, TemplateName, check_tag},
};
use crate::{
    auth::ApiCaller,
    rest::{ApiError, ApiResult, Fields, Json, bad_request},
};

/// `POST /templates/tags`: assigns more tags to the build of one tag.
pub(super) async fn assign(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    caller.require(Need::Admin)?;
    let (text, tags) = (fields.require::<String>("target")?, read_tags(&mut fields)?);
    let target = TemplateName::parse(&text)?;
    let build = templates
        .store()
        .await?
        .catalogue
        .change(|contents| {
            let found = contents.template(&target.name).map(|(id, _)| id.to_owned());
            let id = found.ok_or_else(|| not_found(&text))?;
            let template = contents
                .templates
                .get_mut(&id)
                .ok_or_else(|| not_found(&text))?;
            let build = template
                .tags
                .get(target.tag())
                .cloned()
                .ok_or_else(|| no_tag(&target))?;
            for tag in &tags {
                template.tags.insert(tag.clone(), build.clone());
            }
            contents.prune_untagged(&id);
            ApiResult::Ok(build)
        })
        .await?;
    templates.remove_leftover().await;
    Ok((
        StatusCode::CREATED,
        Json(json!({ "buildID": build, "tags": tags })),
    ))
}

/// `DELETE /templates/tags`. Unknown tags are ignored.
pub(super) async fn remove(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    mut fields: Fields,
) -> ApiResult<StatusCode> {
    caller.require(Need::Admin)?;
    let (text, tags) = (fields.require::<String>("name")?, read_tags(&mut fields)?);
    let name = TemplateName::parse(&text)?;
    if name.tag.is_some() {
        return Err(bad_request("`name` contains a tag (list tags in `tags`)"));
    }
    if tags.iter().any(|tag| tag == DEFAULT_TAG) {
        return Err(bad_request(format!(
            "Cannot delete the '{DEFAULT_TAG}' tag (build the template again to move it)"
        )));
    }
    templates
        .store()
        .await?
        .catalogue
        .change(|contents| {
            let found = contents.template(&name.name).map(|(id, _)| id.to_owned());
            let id = found.ok_or_else(|| not_found(&text))?;
            let template = contents
                .templates
                .get_mut(&id)
                .ok_or_else(|| not_found(&text))?;
            for tag in &tags {
                template.tags.remove(tag);
            }
            contents.prune_untagged(&id);
            ApiResult::Ok(())
        })
        .await?;
    templates.remove_leftover().await;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /templates/{id}/tags`.
pub(super) async fn list(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    caller.require(Need::Read)?;
    let contents = templates.store().await?.catalogue.view();
    let name = TemplateName::parse(&id)?;
    let (_, template) = contents
        .template(&name.name)
        .ok_or_else(|| not_found(&id))?;
    let tags = template.tags.iter().map(|(tag, build)| {
        let created = template
            .builds
            .get(build)
            .map_or(template.created, |build| build.created);
        json!({ "tag": tag, "buildID": build, "createdAt": created.to_string() })
    });
    Ok(Json(tags.collect()))
}

/// Reads `tags` of a request.
fn read_tags(fields: &mut Fields) -> ApiResult<Vec<String>> {
    let tags: Vec<String> = fields.require("tags")?;
    if tags.is_empty() {
        return Err(bad_request("`tags` is empty; name at least one"));
    }
    tags.iter().map(|tag| check_tag(tag)).collect()
}

pub(super) fn no_tag(name: &TemplateName) -> ApiError {
    let why = format!(
        "tag '{}' does not exist for template '{}'",
        name.tag(),
        name.name
    );
    ApiError::new(StatusCode::NOT_FOUND, why)
}
