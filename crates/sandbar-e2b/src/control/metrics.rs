//! What sandboxes use.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, State},
};
use jiff::Timestamp;
use sandbar_core::{Need, SessionId};
use serde_json::{Map, Value, json};

use super::{Answer, details::Size, fields::bad_request, query::Query, sampler::Sample, session_id};
use crate::{json::Json, keys::Holder, surface::Surface};

/// How many sandboxes one request may ask about.
const MOST: usize = 100;

/// Everything measured of one sandbox between `start` and `end`, in seconds since 1970.
pub(super) async fn of_one(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    query: Query,
) -> Answer<Json<Value>> {
    let id = session_id(&id)?;
    holder.require(Need::ReadSession(&id))?;
    let (start, end) = (moment(&query, "start")?, moment(&query, "end")?);
    if start.zip(end).is_some_and(|(start, end)| start > end) {
        return Err(bad_request("`start` is later than `end`"));
    }
    let size = surface.size(&id).await?;
    surface.sample_early(&id).await;
    // A sample belongs to the second it was taken in.
    let end = end.and_then(|end| end.checked_add(jiff::SignedDuration::from_millis(999)).ok());
    Ok(Json(surface.samples.of(&id, start, end).iter().map(|sample| metric(sample, size)).collect()))
}

/// The last of several; one that is not there, or does not run, is left out.
pub(super) async fn of_several(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    query: Query,
) -> Answer<Json<Value>> {
    let ids = query.list("sandbox_ids");
    if ids.is_empty() || ids.len() > MOST {
        return Err(bad_request(format!("`sandbox_ids` names {} sandboxes; send 1 to {MOST}, with commas", ids.len())));
    }
    let mut sandboxes = Map::new();
    for text in ids {
        let id = session_id(text)?;
        holder.require(Need::ReadSession(&id))?;
        let Ok(size) = surface.size(&id).await else { continue };
        surface.sample_early(&id).await;
        if let Some(sample) = surface.samples.last(&id) {
            sandboxes.insert(text.to_owned(), metric(&sample, size));
        }
    }
    Ok(Json(json!({ "sandboxes": sandboxes })))
}

impl Surface {
    async fn size(&self, id: &SessionId) -> Answer<Size> {
        let (session, note) = (self.sandbox(id).await?, self.note(id).await?);
        Ok(Size::of(&session, &note, self.pool_size().await))
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
        // The page cache is the machine's, and counted for nobody.
        "memCache": 0,
        "diskUsed": sample.disk,
        "diskTotal": size.disk,
    })
}

fn moment(query: &Query, name: &str) -> Answer<Option<Timestamp>> {
    let Some(seconds) = query.number(name, 0, u64::MAX)? else { return Ok(None) };
    let moment = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    moment.map(Some).ok_or_else(|| bad_request(format!("`{name}` is {seconds}; send seconds since 1970")))
}
