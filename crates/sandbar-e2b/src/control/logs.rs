//! What happened in a sandbox: its audit log, in the form E2B tells logs in.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    Extension,
    extract::{Path, State},
};
use jiff::Timestamp;
use sandbar_core::{AuditEntry, AuditOrder, AuditQuery, Need, PageRequest, Result, SessionId};
use serde_json::{Map, Value, json};

use super::{Answer, fields::bad_request, query::Query, session_id};
use crate::{json::Json, keys::Holder, surface::Surface};

/// The most one request is told.
const MOST: u64 = 1000;

/// How much of it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    fn of(entry: &AuditEntry) -> Self {
        match entry.outcome.as_str() {
            AuditEntry::OK => Self::Info,
            AuditEntry::FAILED => Self::Warn,
            _ => Self::Error,
        }
    }
}

/// What of the log to tell.
struct Wanted {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    limit: usize,
    newest_first: bool,
    level: Level,
    search: Option<String>,
}

/// Oldest first, from `start` on, in milliseconds since 1970.
pub(super) async fn first_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    query: Query,
) -> Answer<Json<Value>> {
    let id = session_id(&id)?;
    holder.require(Need::ReadSession(&id))?;
    let wanted = Wanted {
        since: moment(&query, "start")?,
        until: None,
        limit: limit(&query)?,
        newest_first: false,
        level: Level::Debug,
        search: None,
    };
    let entries = surface.log(&id, &wanted).await?;
    let lines: Vec<Value> = entries
        .iter()
        .map(|entry| json!({ "timestamp": entry.at.to_string(), "line": told(entry).to_string() }))
        .collect();
    Ok(Json(json!({ "logs": lines, "logEntries": entries.iter().map(told).collect::<Vec<_>>() })))
}

/// From `cursor` on, into the past where `direction` is `backward`.
pub(super) async fn second_version(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    query: Query,
) -> Answer<Json<Value>> {
    let id = session_id(&id)?;
    holder.require(Need::ReadSession(&id))?;
    let newest_first = match query.text("direction") {
        None | Some("forward") => false,
        Some("backward") => true,
        Some(other) => {
            return Err(bad_request(format!("`direction` is `{}`; use forward or backward", other.escape_debug())));
        }
    };
    let level = match query.text("level") {
        None | Some("debug") => Level::Debug,
        Some("info") => Level::Info,
        Some("warn") => Level::Warn,
        Some("error") => Level::Error,
        Some(other) => {
            return Err(bad_request(format!("`level` is `{}`; use debug, info, warn or error", other.escape_debug())));
        }
    };
    let cursor = moment(&query, "cursor")?;
    let (since, until) = if newest_first { (None, cursor) } else { (cursor, None) };
    let search = query.text("search").map(str::to_owned);
    let wanted = Wanted { since, until, limit: limit(&query)?, newest_first, level, search };
    let entries = surface.log(&id, &wanted).await?;
    Ok(Json(json!({ "logs": entries.iter().map(told).collect::<Vec<_>>() })))
}

fn limit(query: &Query) -> Answer<usize> {
    Ok(usize::try_from(query.number("limit", 0, MOST)?.unwrap_or(MOST)).unwrap_or(usize::MAX))
}

fn moment(query: &Query, name: &str) -> Answer<Option<Timestamp>> {
    let Some(millis) = query.number(name, 0, u64::MAX)? else { return Ok(None) };
    let moment = i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    moment.map(Some).ok_or_else(|| bad_request(format!("`{name}` is {millis}; send milliseconds since 1970")))
}

fn message(entry: &AuditEntry) -> String {
    if entry.outcome == AuditEntry::OK { entry.what.clone() } else { format!("{}: {}", entry.what, entry.outcome) }
}

fn told(entry: &AuditEntry) -> Value {
    let mut fields: Map<String, Value> = Map::new();
    for (name, value) in &entry.detail {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        fields.insert(name.clone(), text.into());
    }
    fields.insert("actor".into(), entry.who.as_str().into());
    fields.insert("outcome".into(), entry.outcome.as_str().into());
    json!({
        "timestamp": entry.at.to_string(),
        "level": Level::of(entry).as_str(),
        "message": message(entry),
        "fields": fields,
    })
}

impl Surface {
    async fn log(&self, id: &SessionId, wanted: &Wanted) -> Result<Vec<AuditEntry>> {
        let order = if wanted.newest_first { AuditOrder::NewestFirst } else { AuditOrder::OldestFirst };
        let mut page = PageRequest { size: PageRequest::LARGEST_SIZE, token: None };
        let mut told = VecDeque::new();
        loop {
            let part = self.host.audit(id, AuditQuery { order, after: None, page: page.clone() }).await?;
            let includes = |entry: &AuditEntry| {
                wanted.since.is_none_or(|since| entry.at >= since)
                    && wanted.until.is_none_or(|until| entry.at <= until)
                    && Level::of(entry) >= wanted.level
                    && wanted.search.as_ref().is_none_or(|search| message(entry).contains(search.as_str()))
            };
            told.extend(part.items.into_iter().filter(includes));
            if told.len() >= wanted.limit {
                told.truncate(wanted.limit);
                return Ok(told.into());
            }
            match part.next_token {
                None => return Ok(told.into()),
                token => page.token = token,
            }
        }
    }
}
