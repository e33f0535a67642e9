//! How far a build is.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
};
use sandbar_core::Need;
use serde_json::{Value, json};

use super::{
    Answer,
    build::{BuildLog, Level, LogEntry},
    no_build, not_found, refuse,
};
use crate::{control::Query, json::Json, keys::Holder, surface::Surface};

/// Lines of the step that failed, beside the reason.
const LINES_OF_FAILURE: usize = 20;

/// Which lines somebody asks for.
struct Lines {
    from: usize,
    most: usize,
    level: Level,
}

impl Lines {
    fn read(query: &Query) -> Answer<Self> {
        let number = |name: &str| -> Answer<Option<usize>> {
            Ok(query.number(name, 0, u64::from(u32::MAX))?.and_then(|number| usize::try_from(number).ok()))
        };
        let level = match query.text("level") {
            None => Level::Info,
            Some(level) => Level::parse(level).ok_or_else(|| {
                refuse(format!("`level` is `{}`; use debug, info, warn or error", level.escape_debug()))
            })?,
        };
        let (from, most) = (number("logsOffset")?.unwrap_or(0), number("limit")?.unwrap_or(usize::MAX));
        Ok(Self { from, most, level })
    }

    fn of(&self, log: Option<&BuildLog>) -> Vec<LogEntry> {
        log.map(|log| log.from(self.from, self.most, self.level)).unwrap_or_default()
    }
}

/// `GET /templates/{id}/builds/{build}/status`. Whoever asks for no number of lines gets all there are: SDKs stop asking when
/// the build is over.
pub(super) async fn status(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path((template, build)): Path<(String, String)>,
    query: Query,
) -> Answer<Json<Value>> {
    holder.require(Need::Read)?;
    let wanted = Lines::read(&query)?;
    let templates = surface.templates().await?;
    // The state first: what is said before it changes is then among the lines.
    let contents = templates.catalogue.view();
    let (id, record) = contents.template(&template).ok_or_else(|| not_found(&template))?;
    let record = record.builds.get(&build).ok_or_else(|| no_build(&build))?;
    let log = templates.builds.log(&build);
    let entries = wanted.of(log.as_deref());
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
    query: Query,
) -> Answer<Json<Value>> {
    holder.require(Need::Read)?;
    let templates = surface.templates().await?;
    let contents = templates.catalogue.view();
    let (_, record) = contents.template(&template).ok_or_else(|| not_found(&template))?;
    record.builds.get(&build).ok_or_else(|| no_build(&build))?;
    let log = templates.builds.log(&build);
    Ok(Json(json!({ "logs": Lines::read(&query)?.of(log.as_deref()) })))
}
