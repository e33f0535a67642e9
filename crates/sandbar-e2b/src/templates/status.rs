//! How far a build is.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, Query, State},
};
use sandbar_core::Need;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Answer,
    build::{Level, LogEntry},
    not_found, refuse,
};
use crate::{json::Json, keys::Holder, surface::Surface};

/// Lines of the step that failed, beside the reason.
const LINES_OF_FAILURE: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogQuery {
    #[serde(default)]
    logs_offset: usize,
    limit: Option<usize>,
    level: Option<String>,
}

impl LogQuery {
    fn level(&self) -> Answer<Level> {
        match self.level.as_deref() {
            None => Ok(Level::Info),
            Some(level) => Level::parse(level).ok_or_else(|| refuse("`level` is debug, info, warn or error")),
        }
    }
}

/// `GET /templates/{id}/builds/{build}/status`. Whoever asks for no number of lines gets all there are: SDKs stop asking when
/// the build is over.
pub(super) async fn status(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path((template, build)): Path<(String, String)>,
    Query(query): Query<LogQuery>,
) -> Answer<Json<Value>> {
    holder.require(Need::Read)?;
    let level = query.level()?;
    let templates = surface.templates().await?;
    // The state first: what is said before it changes is then among the lines.
    let contents = templates.catalogue.view();
    let (id, record) = contents.template(&template).ok_or_else(|| not_found(&template))?;
    let record = record.builds.get(&build).ok_or_else(|| not_found(&build))?;
    let log = templates.builds.log(&build);
    let most = query.limit.unwrap_or(usize::MAX);
    let entries = log.as_ref().map(|log| log.from(query.logs_offset, most, level)).unwrap_or_default();
    let mut answer = json!({
        "templateID": id,
        "buildID": build,
        "status": record.status,
        "logs": lines(&entries),
        "logEntries": entries,
    });
    if let Some(failure) = &record.failure {
        let last = failure.step.as_deref().zip(log.as_ref()).map(|(step, log)| log.end_of(step, LINES_OF_FAILURE));
        let mut reason = json!({ "message": failure.message, "logEntries": last.unwrap_or_default() });
        if let Some(step) = &failure.step {
            reason["step"] = step.as_str().into();
        }
        answer["reason"] = reason;
    }
    Ok(Json(answer))
}

fn lines(entries: &[LogEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.message.as_str()).collect()
}

/// `GET /templates/{id}/builds/{build}/logs`.
pub(super) async fn logs(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path((template, build)): Path<(String, String)>,
    Query(query): Query<LogQuery>,
) -> Answer<Json<Value>> {
    holder.require(Need::Read)?;
    let templates = surface.templates().await?;
    let contents = templates.catalogue.view();
    let (_, record) = contents.template(&template).ok_or_else(|| not_found(&template))?;
    record.builds.get(&build).ok_or_else(|| not_found(&build))?;
    let (most, level) = (query.limit.unwrap_or(usize::MAX), query.level()?);
    let entries = templates.builds.log(&build).map(|log| log.from(query.logs_offset, most, level));
    Ok(Json(json!({ "logs": entries.unwrap_or_default() })))
}
