//! Logs of a sandbox: its audit log in the format of E2B.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    Extension,
    extract::{Path, State},
};
use jiff::Timestamp;
use sandbar_core::{AuditEntry, AuditOrder, AuditQuery, Need, PageRequest, Result, SessionId};
use serde_json::{Map, Value, json};

use super::{Control, errors::session_id};
use crate::{
    auth::ApiCaller,
    rest::{ApiResult, Json, Query, bad_request},
};

/// Limit of entries per request.
const MAX_ENTRIES: u64 = 1000;

/// Severity of an entry.
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

/// Filter and order of the entries.
struct LogFilter {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    limit: usize,
    newest_first: bool,
    level: Level,
    search: Option<String>,
}

/// Lists entries oldest first, from `start` (Unix time in milliseconds).
pub(super) async fn first_version(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    query: Query,
) -> ApiResult<Json<Value>> {
    let id = session_id(&id)?;
    caller.require(Need::ReadSession(&id))?;
    let filter = LogFilter {
        since: timestamp(&query, "start")?,
        until: None,
        limit: limit(&query)?,
        newest_first: false,
        level: Level::Debug,
        search: None,
    };
    let entries = control.log_entries(&id, &filter).await?;
    let lines: Vec<Value> = entries
        .iter()
        .map(|entry| json!({ "timestamp": entry.at.to_string(), "line": to_value(entry).to_string() }))
        .collect();
    Ok(Json(
        json!({ "logs": lines, "logEntries": entries.iter().map(to_value).collect::<Vec<_>>() }),
    ))
}

/// Lists entries from `cursor`; older ones if `direction` is `backward`.
pub(super) async fn second_version(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Path(id): Path<String>,
    query: Query,
) -> ApiResult<Json<Value>> {
    let id = session_id(&id)?;
    caller.require(Need::ReadSession(&id))?;
    let newest_first = match query.text("direction") {
        None | Some("forward") => false,
        Some("backward") => true,
        Some(other) => {
            return Err(bad_request(format!(
                "`direction` is `{}`; use forward or backward",
                other.escape_debug()
            )));
        }
    };
    let level = match query.text("level") {
        None | Some("debug") => Level::Debug,
        Some("info") => Level::Info,
        Some("warn") => Level::Warn,
        Some("error") => Level::Error,
        Some(other) => {
            return Err(bad_request(format!(
                "`level` is `{}`; use debug, info, warn or error",
                other.escape_debug()
            )));
        }
    };
    let cursor = timestamp(&query, "cursor")?;
    let (since, until) = if newest_first {
        (None, cursor)
    } else {
        (cursor, None)
    };
    let search = query.text("search").map(str::to_owned);
    let filter = LogFilter {
        since,
        until,
        limit: limit(&query)?,
        newest_first,
        level,
        search,
    };
    let entries = control.log_entries(&id, &filter).await?;
    Ok(Json(
        json!({ "logs": entries.iter().map(to_value).collect::<Vec<_>>() }),
    ))
}

fn limit(query: &Query) -> ApiResult<usize> {
    Ok(usize::try_from(
        query
            .number("limit", 0, MAX_ENTRIES)?
            .unwrap_or(MAX_ENTRIES),
    )
    .unwrap_or(usize::MAX))
}

fn timestamp(query: &Query, name: &str) -> ApiResult<Option<Timestamp>> {
    let Some(millis) = query.number(name, 0, u64::MAX)? else {
        return Ok(None);
    };
    let parsed = i64::try_from(millis)
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok());
    parsed.map(Some).ok_or_else(|| {
        bad_request(format!(
            "`{name}` is {millis}; send Unix time in milliseconds"
        ))
    })
}

fn message(entry: &AuditEntry) -> String {
    if entry.outcome == AuditEntry::OK {
        entry.what.clone()
    } else {
        format!("{}: {}", entry.what, entry.outcome)
    }
}

fn to_value(entry: &AuditEntry) -> Value {
    let mut fields: Map<String, Value> = Map::new();
    for (name, value) in &entry.detail {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
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

impl Control {
    async fn log_entries(&self, id: &SessionId, filter: &LogFilter) -> Result<Vec<AuditEntry>> {
        let order = if filter.newest_first {
            AuditOrder::NewestFirst
        } else {
            AuditOrder::OldestFirst
        };
        let mut page = PageRequest {
            size: PageRequest::MAX_SIZE,
            token: None,
        };
        let mut found = VecDeque::new();
        loop {
            let part = self
                .host
                .audit(
                    id,
                    AuditQuery {
                        order,
                        after: None,
                        page: page.clone(),
                    },
                )
                .await?;
            let includes = |entry: &AuditEntry| {
                filter.since.is_none_or(|since| entry.at >= since)
                    && filter.until.is_none_or(|until| entry.at <= until)
                    && Level::of(entry) >= filter.level
                    && filter
                        .search
                        .as_ref()
                        .is_none_or(|search| message(entry).contains(search.as_str()))
            };
            found.extend(part.items.into_iter().filter(includes));
            if found.len() >= filter.limit {
                found.truncate(filter.limit);
                return Ok(found.into());
            }
            match part.next_token {
                None => return Ok(found.into()),
                token => page.token = token,
            }
        }
    }
}
