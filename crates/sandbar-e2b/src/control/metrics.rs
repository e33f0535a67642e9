//! Resource usage of sandboxes.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
};
use jiff::Timestamp;
use sandbar_core::{Need, SessionId};
use serde_json::{Map, Value, json};

use super::{Control, details::Size, errors::session_id, sampler::Sample};
use crate::{
    auth::ApiCaller,
    rest::{ApiResult, Json, Query, bad_request},
};

/// Limit of sandboxes per request.
const MAX_SANDBOXES: usize = 100;

/// Lists the samples of one sandbox between `start` and `end` (Unix time in seconds).
pub(super) async fn of_one(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    query: Query,
) -> ApiResult<Json<Value>> {
    let id = session_id(&id)?;
    caller.require(Need::ReadSession(&id))?;
    let (start, end) = (timestamp(&query, "start")?, timestamp(&query, "end")?);
    if start.zip(end).is_some_and(|(start, end)| start > end) {
        return Err(bad_request("`start` is later than `end`"));
    }
    let size = control.size(&id).await?;
    control.sample_early(&id).await;
    // `end` includes samples taken within that second.
    let end = end.and_then(|end| end.checked_add(jiff::SignedDuration::from_millis(999)).ok());
    Ok(Json(
        control
            .samples
            .of(&id, start, end)
            .iter()
            .map(|sample| metric(sample, size))
            .collect(),
    ))
}

/// Returns the last sample of several sandboxes; those that do not exist or run are left out.
pub(super) async fn of_several(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    query: Query,
) -> ApiResult<Json<Value>> {
    let ids = query.list("sandbox_ids");
    if ids.is_empty() || ids.len() > MAX_SANDBOXES {
        return Err(bad_request(format!(
            "`sandbox_ids` names {} sandboxes; send 1 to {MAX_SANDBOXES}, with commas",
            ids.len()
        )));
    }
    let mut sandboxes = Map::new();
    for text in ids {
        let id = session_id(text)?;
        caller.require(Need::ReadSession(&id))?;
        let Ok(size) = control.size(&id).await else {
            continue;
        };
        control.sample_early(&id).await;
        if let Some(sample) = control.samples.last(&id) {
            sandboxes.insert(text.to_owned(), metric(&sample, size));
        }
    }
    Ok(Json(json!({ "sandboxes": sandboxes })))
}

impl Control {
    async fn size(&self, id: &SessionId) -> ApiResult<Size> {
        let (session, note) = (self.sandbox(id).await?, self.sandboxes.note(id).await?);
        Ok(Size::of(&session, &note, self.shared_size().await))
    }
}

fn metric(sample: &Sample, size: Size) -> Value {
    json!({
        "timestamp": sample.at.to_string(),
        "timestampUnix": sample.at.as_second(),
        "cpuCount": size.cpus,
        "cpuUsedPct": (sample.cpus_used * 100.0 / f64::from(size.cpus.max(1))).clamp(0.0, 100.0),
        "memUsed": sample.memory,
        "memTotal": size.memory,
        // The page cache is not accounted to a session.
        "memCache": 0,
        "diskUsed": sample.disk,
        "diskTotal": size.disk,
    })
}

fn timestamp(query: &Query, name: &str) -> ApiResult<Option<Timestamp>> {
    let Some(seconds) = query.number(name, 0, u64::MAX)? else {
        return Ok(None);
    };
    let parsed = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok());
    parsed
        .map(Some)
        .ok_or_else(|| bad_request(format!("`{name}` is {seconds}; send Unix time in seconds")))
}
