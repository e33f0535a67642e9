//! Requesting a build, and starting it.

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
    Templates,
    build::BuildPlan,
    catalogue::{BuildRecord, BuildStatus, TemplateRecord},
    catalogue_api::described,
    errors::not_found,
    ids::{random_id, random_uuid},
    name::{DEFAULT_TAG, TemplateName, check_tag},
    resolve::is_reserved,
    settings::Settings,
};
use crate::{
    auth::ApiCaller,
    rest::{ApiError, ApiResult, Fields, Json, bad_request},
};

const DEFAULT_CPUS: u32 = 2;
const DEFAULT_MEMORY: u32 = 1024;
const MIN_MEMORY: u32 = 128;

/// Parsed request, in any version of the call.
#[derive(Debug)]
struct NewBuild {
    name: String,
    tags: Vec<String>,
    cpu_count: u32,
    memory_mb: u32,
}

impl NewBuild {
    fn read(fields: &mut Fields) -> ApiResult<Self> {
        let (name, alias) = (fields.take("name")?, fields.take("alias")?);
        let request = Self {
            name: name
                .or(alias)
                .ok_or_else(|| bad_request("`name` is missing; a template requires one"))?,
            tags: fields.take("tags")?.unwrap_or_default(),
            cpu_count: fields.take("cpuCount")?.unwrap_or(DEFAULT_CPUS),
            memory_mb: fields.take("memoryMB")?.unwrap_or(DEFAULT_MEMORY),
        };
        if request.cpu_count == 0 {
            return Err(bad_request("`cpuCount` is 0; ask for at least 1"));
        }
        if request.memory_mb < MIN_MEMORY {
            return Err(bad_request(format!(
                "`memoryMB` is {}; ask for at least {MIN_MEMORY}",
                request.memory_mb
            )));
        }
        Ok(request)
    }
}

/// Recorded build.
struct Requested {
    template: String,
    build: String,
    name: String,
    tags: Vec<String>,
}

/// `POST /v3/templates`.
pub(super) async fn third_version(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    caller.require(Need::Admin)?;
    let made = templates
        .request_build(NewBuild::read(&mut fields)?)
        .await?;
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
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    caller.require(Need::Admin)?;
    let made = templates
        .request_build(NewBuild::read(&mut fields)?)
        .await?;
    let contents = templates.store().await?.catalogue.view();
    let record = contents
        .templates
        .get(&made.template)
        .ok_or_else(|| not_found(&made.template))?;
    let mut answer = described(&made.template, record, 0);
    answer["buildID"] = made.build.into();
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// Refuses the calls of old SDKs that built with Docker on the client.
pub(super) async fn with_docker() -> ApiError {
    ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        "builds from images pushed by Docker are not offered (use `Template.build` of an SDK from 2.3 on)",
    )
}

impl Templates {
    async fn request_build(&self, request: NewBuild) -> ApiResult<Requested> {
        let NewBuild {
            cpu_count,
            memory_mb,
            ..
        } = request;
        let name = TemplateName::parse(&request.name)?;
        if is_reserved(&name.name) {
            let why = format!(
                "'{}' is the name of a built-in template (use another one)",
                name.name
            );
            return Err(ApiError::new(StatusCode::FORBIDDEN, why));
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
        let catalogue = &self.store().await?.catalogue;
        let template = catalogue
            .change(|contents| {
                let known = contents.template(&name.name).map(|(id, _)| id.to_owned());
                let id = known.unwrap_or(new_template);
                let template =
                    contents
                        .templates
                        .entry(id.clone())
                        .or_insert_with(|| TemplateRecord {
                            name: Some(name.name.clone()),
                            created: now,
                            updated: now,
                            public: false,
                            builds: std::collections::BTreeMap::new(),
                            tags: std::collections::BTreeMap::new(),
                        });
                template.builds.insert(build.clone(), record);
                ApiResult::Ok(id)
            })
            .await?;
        Ok(Requested {
            template,
            build,
            name: name.name,
            tags,
        })
    }
}

/// `POST /v2/templates/{id}/builds/{build}`: starts a requested build.
pub(super) async fn start(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    Path((template, build)): Path<(String, String)>,
    mut fields: Fields,
) -> ApiResult<StatusCode> {
    caller.require(Need::Admin)?;
    let plan = BuildPlan::read(&mut fields)?;
    templates
        .start_build(&caller, template, build, plan)
        .await?;
    Ok(StatusCode::ACCEPTED)
}
