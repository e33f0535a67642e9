//! Status and log of a build.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
};
use sandbar_core::Need;
use serde_json::{Value, json};

use super::{
    Templates,
    build::{BuildLog, Level, LogEntry},
    errors::{build_not_found, not_found},
};
use crate::{
    auth::ApiCaller,
    rest::{ApiResult, Json, Query, bad_request},
};

/// Log lines of a failed step that are sent with the reason.
const FAILURE_LINES: usize = 20;

/// Requested log lines.
struct LogQuery {
    offset: usize,
    limit: usize,
    level: Level,
}

impl LogQuery {
    fn read(query: &Query) -> ApiResult<Self> {
        let number = |name: &str| -> ApiResult<Option<usize>> {
            Ok(query
                .number(name, 0, u64::from(u32::MAX))?
                .and_then(|number| usize::try_from(number).ok()))
        };
        let level = match query.text("level") {
            None => Level::Info,
            Some(level) => Level::parse(level).ok_or_else(|| {
                bad_request(format!(
                    "`level` is `{}`; use debug, info, warn or error",
                    level.escape_debug()
                ))
            })?,
        };
        let (offset, limit) = (
            number("logsOffset")?.unwrap_or(0),
            number("limit")?.unwrap_or(usize::MAX),
        );
        Ok(Self {
            offset,
            limit,
            level,
        })
    }

    fn of(&self, log: Option<&BuildLog>) -> Vec<LogEntry> {
        log.map(|log| log.entries_from(self.offset, self.limit, self.level))
            .unwrap_or_default()
    }
}

/// `GET /templates/{id}/builds/{build}/status`. Without a limit it sends all log lines, because
/// SDKs stop polling when the build is over.
pub(super) async fn status(
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    Path((template, build)): Path<(String, String)>,
    query: Query,
) -> ApiResult<Json<Value>> {
    caller.require(Need::Read)?;
    let log_query = LogQuery::read(&query)?;
    let store = templates.store().await?;
    // The status is read before the log, so a final status comes with the complete log.
    let contents = store.catalogue.view();
    let (id, record) = contents
        .template(&template)
        .ok_or_else(|| not_found(&template))?;
    let record = record
        .builds
        .get(&build)
        .ok_or_else(|| build_not_found(&build))?;
    let log = store.builds.log(&build);
    let entries = log_query.of(log.as_deref());
    let mut answer = json!({
        "templateID": id,
        "buildID": build,
        "status": record.status,
        "logs": lines(&entries),
        "logEntries": entries,
    });
    if let Some(failure) = &record.failure {
        let last = failure
            .step
            .as_deref()
            .zip(log.as_ref())
            .map(|(step, log)| log.end_of(step, FAILURE_LINES));
        let mut reason =
            json!({ "message": failure.message, "logEntries": last.unwrap_or_default() });
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
    State(templates): State<Arc<Templates>>,
    Extension(caller): Extension<ApiCaller>,
    Path((template, build)): Path<(String, String)>,
    query: Query,
) -> ApiResult<Json<Value>> {
    caller.require(Need::Read)?;
    let store = templates.store().await?;
    let contents = store.catalogue.view();
    let (_, record) = contents
        .template(&template)
        .ok_or_else(|| not_found(&template))?;
    record
        .builds
        .get(&build)
        .ok_or_else(|| build_not_found(&build))?;
    let log = store.builds.log(&build);
    Ok(Json(
        json!({ "logs": LogQuery::read(&query)?.of(log.as_deref()) }),
    ))
}
