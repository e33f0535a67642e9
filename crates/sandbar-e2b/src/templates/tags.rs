//! Tags: names for builds of one template.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::Need;
use serde_json::{Value, json};

use super::{
    Answer,
    name::{DEFAULT_TAG, TemplateName, check_tag},
    not_found, refuse, with_status,
};
use crate::{control::Fields, json::Json, keys::Holder, surface::Surface};

/// `POST /templates/tags`: more names for the build one name stands for.
pub(super) async fn assign(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    holder.require(Need::Admin)?;
    let (text, tags) = (fields.require::<String>("target")?, checked(&mut fields)?);
    let target = TemplateName::parse(&text)?;
    let build = surface
        .templates()
        .await?
        .catalogue
        .change(|contents| {
            let found = contents.template(&target.name).map(|(id, _)| id.to_owned());
            let id = found.ok_or_else(|| not_found(&text))?;
            let template = contents.templates.get_mut(&id).ok_or_else(|| not_found(&text))?;
            let build = template.tags.get(target.tag()).cloned().ok_or_else(|| no_tag(&target))?;
            for tag in &tags {
                template.tags.insert(tag.clone(), build.clone());
            }
            contents.forget_untagged(&id);
            Answer::Ok(build)
        })
        .await?;
    surface.remove_leftover().await;
    Ok((StatusCode::CREATED, Json(json!({ "buildID": build, "tags": tags }))))
}

/// `DELETE /templates/tags`. One that is not there is gone already.
pub(super) async fn remove(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    mut fields: Fields,
) -> Answer<StatusCode> {
    holder.require(Need::Admin)?;
    let (text, tags) = (fields.require::<String>("name")?, checked(&mut fields)?);
    let name = TemplateName::parse(&text)?;
    if name.tag.is_some() {
        return Err(refuse("`name` has a tag in it (name tags in `tags`)"));
    }
    if tags.iter().any(|tag| tag == DEFAULT_TAG) {
        return Err(refuse(format!("Cannot delete the '{DEFAULT_TAG}' tag (build the template again to move it)")));
    }
    surface
        .templates()
        .await?
        .catalogue
        .change(|contents| {
            let found = contents.template(&name.name).map(|(id, _)| id.to_owned());
            let id = found.ok_or_else(|| not_found(&text))?;
            let template = contents.templates.get_mut(&id).ok_or_else(|| not_found(&text))?;
            for tag in &tags {
                template.tags.remove(tag);
            }
            contents.forget_untagged(&id);
            Answer::Ok(())
        })
        .await?;
    surface.remove_leftover().await;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /templates/{id}/tags`.
pub(super) async fn list(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    holder.require(Need::Read)?;
    let contents = surface.templates().await?.catalogue.view();
    let name = TemplateName::parse(&id)?;
    let (_, template) = contents.template(&name.name).ok_or_else(|| not_found(&id))?;
    let tags = template.tags.iter().map(|(tag, build)| {
        let created = template.builds.get(build).map_or(template.created, |build| build.created);
        json!({ "tag": tag, "buildID": build, "createdAt": created.to_string() })
    });
    Ok(Json(tags.collect()))
}

/// The tags a request names.
fn checked(fields: &mut Fields) -> Answer<Vec<String>> {
    let tags: Vec<String> = fields.require("tags")?;
    if tags.is_empty() {
        return Err(refuse("`tags` is empty; name at least one"));
    }
    tags.iter().map(|tag| check_tag(tag)).collect()
}

pub(super) fn no_tag(name: &TemplateName) -> super::ControlError {
    let why = format!("tag '{}' does not exist for template '{}'", name.tag(), name.name);
    with_status(StatusCode::NOT_FOUND, why)
}
