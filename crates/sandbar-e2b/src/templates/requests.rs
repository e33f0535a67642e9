//! Asking for a build: first a place for it, then what to build.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use jiff::Timestamp;
use sandbar_core::Need;
use serde_json::{Value, json};

use super::{
    Answer,
    build::{self, BuildPlan},
    catalogue::{BuildRecord, BuildStatus, TemplateRecord},
    finding::described,
    name::{DEFAULT_TAG, TemplateName, check_tag},
    not_found, random_id, random_uuid, refuse,
    resolve::is_reserved,
    settings::Settings,
    with_status,
};
use crate::{control::Fields, json::Json, keys::Holder, surface::Surface};

const DEFAULT_CPUS: u32 = 2;
const DEFAULT_MEMORY: u32 = 1024;
const LEAST_MEMORY: u32 = 128;

/// What is asked for, in any version of the call.
#[derive(Debug)]
struct NewBuild {
    name: String,
    tags: Vec<String>,
    cpu_count: u32,
    memory_mb: u32,
}

impl NewBuild {
    fn read(fields: &mut Fields) -> Answer<Self> {
        let (name, alias) = (fields.take("name")?, fields.take("alias")?);
        let request = Self {
            name: name.or(alias).ok_or_else(|| refuse("`name` is missing, and a template needs one"))?,
            tags: fields.take("tags")?.unwrap_or_default(),
            cpu_count: fields.take("cpuCount")?.unwrap_or(DEFAULT_CPUS),
            memory_mb: fields.take("memoryMB")?.unwrap_or(DEFAULT_MEMORY),
        };
        if request.cpu_count == 0 {
            return Err(refuse("`cpuCount` is 0; ask for at least 1"));
        }
        if request.memory_mb < LEAST_MEMORY {
            return Err(refuse(format!("`memoryMB` is {}; ask for at least {LEAST_MEMORY}", request.memory_mb)));
        }
        Ok(request)
    }
}

/// What was made room for.
struct Requested {
    template: String,
    build: String,
    name: String,
    tags: Vec<String>,
}

/// `POST /v3/templates`.
pub(super) async fn third_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    holder.require(Need::Admin)?;
    let made = surface.request_build(NewBuild::read(&mut fields)?).await?;
    let answer = json!({
        "templateID": made.template,
        "buildID": made.build,
        "public": false,
        "names": [made.name],
        "aliases": [made.name],
        "tags": made.tags,
    });
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// `POST /v2/templates`, which answers with the whole template.
pub(super) async fn second_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    mut fields: Fields,
) -> Answer<(StatusCode, Json<Value>)> {
    holder.require(Need::Admin)?;
    let made = surface.request_build(NewBuild::read(&mut fields)?).await?;
    let contents = surface.templates().await?.catalogue.view();
    let record = contents.templates.get(&made.template).ok_or_else(|| not_found(&made.template))?;
    let mut answer = described(&made.template, record, 0);
    answer["buildID"] = made.build.into();
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// The calls of SDKs that built with Docker on the caller's side.
pub(super) async fn with_docker() -> super::ControlError {
    with_status(
        StatusCode::NOT_IMPLEMENTED,
        "templates are not built from what Docker has pushed (use `Template.build` of an SDK from 2.3 on)",
    )
}

impl Surface {
    async fn request_build(&self, request: NewBuild) -> Answer<Requested> {
        let NewBuild { cpu_count, memory_mb, .. } = request;
        let name = TemplateName::parse(&request.name)?;
        if is_reserved(&name.name) {
            let why = format!("'{}' is taken: every host has a template of this name (use another one)", name.name);
            return Err(with_status(StatusCode::FORBIDDEN, why));
        }
        let mut tags: Vec<String> = name.tag.iter().cloned().collect();
        for tag in request.tags {
            let tag = check_tag(&tag)?;
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        if tags.is_empty() {
            tags.push(DEFAULT_TAG.to_owned());
        }
        let (new_template, build, now) = (random_id()?, random_uuid(), Timestamp::now());
        let record = BuildRecord {
            status: BuildStatus::Waiting,
            created: now,
            updated: now,
            finished: None,
            cpu_count,
            memory_mb,
            tags: tags.clone(),
            base: None,
            settings: Settings::default(),
            failure: None,
        };
        let catalogue = &self.templates().await?.catalogue;
        let template = catalogue
            .change(|contents| {
                let known = contents.template(&name.name).map(|(id, _)| id.to_owned());
                let id = known.unwrap_or(new_template);
                let template = contents.templates.entry(id.clone()).or_insert_with(|| TemplateRecord {
                    name: Some(name.name.clone()),
                    created: now,
                    updated: now,
                    public: false,
                    builds: std::collections::BTreeMap::new(),
                    tags: std::collections::BTreeMap::new(),
                });
                template.builds.insert(build.clone(), record);
                Answer::Ok(id)
            })
            .await?;
        Ok(Requested { template, build, name: name.name, tags })
    }
}

/// `POST /v2/templates/{id}/builds/{build}`: what to build.
pub(super) async fn start(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path((template, build)): Path<(String, String)>,
    mut fields: Fields,
) -> Answer<StatusCode> {
    holder.require(Need::Admin)?;
    let plan = BuildPlan::read(&mut fields)?;
    build::start(&surface, &holder, template, build, plan).await?;
    Ok(StatusCode::ACCEPTED)
}
