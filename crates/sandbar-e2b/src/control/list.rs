//! Listing sandboxes.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue},
};
use sandbar_core::{Need, PageRequest, Result, SessionFilter, SessionInfo};
use serde_json::Value;

use super::{
    Control,
    details::{listed, state_of},
    list_query::{Page, SandboxFilter},
};
use crate::{
    auth::ApiCaller,
    protocol::NEXT_TOKEN,
    rest::{ApiResult, Json, Query},
    templates::BUILD_PREFIX,
};

const TOTAL_RUNNING: HeaderName = HeaderName::from_static("x-total-running");

/// Lists sandboxes in any state, a page at a time; newest first by default.
pub(super) async fn all(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    query: Query,
) -> ApiResult<(HeaderMap, Json<Value>)> {
    caller.require(Need::AnyToken)?;
    let (filter, page) = (SandboxFilter::read(&query)?, Page::read(&query)?);
    let notes = control.sandboxes.notes().await?;
    let of = |session: &SessionInfo| notes.get(&session.id).cloned().unwrap_or_default();
    let mut sessions = control.sessions_of(&caller).await?;
    sessions.retain(|session| filter.includes(session, &of(session)));
    let running = sessions
        .iter()
        .filter(|session| state_of(session) == "running")
        .count();
    let (sessions, next) = page.cut(sessions);
    let mut headers = HeaderMap::new();
    if let Some(next) = next.and_then(|next| HeaderValue::from_str(&next).ok()) {
        headers.insert(NEXT_TOKEN, next);
    }
    if filter.wants_running() {
        headers.insert(TOTAL_RUNNING, HeaderValue::from(running));
    }
    let shared = control.shared_size().await;
    Ok((
        headers,
        Json(
            sessions
                .iter()
                .map(|session| listed(session, &of(session), shared))
                .collect(),
        ),
    ))
}

/// Lists all running sandboxes.
pub(super) async fn running(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    query: Query,
) -> ApiResult<Json<Value>> {
    caller.require(Need::AnyToken)?;
    let filter = SandboxFilter::read_running(&query)?;
    let (notes, shared) = (
        control.sandboxes.notes().await?,
        control.shared_size().await,
    );
    let sessions = control.sessions_of(&caller).await?;
    let listed = sessions.into_iter().filter_map(|session| {
        let note = notes.get(&session.id).cloned().unwrap_or_default();
        filter
            .includes(&session, &note)
            .then(|| listed(&session, &note, shared))
    });
    Ok(Json(listed.collect()))
}

impl Control {
    /// Returns the sessions a caller may read, oldest first.
    async fn sessions_of(&self, caller: &ApiCaller) -> Result<Vec<SessionInfo>> {
        self.sessions(&SessionFilter {
            ids: caller.grant.sessions(),
            ..SessionFilter::default()
        })
        .await
    }

    /// Returns all sessions that match a filter.
    pub(super) async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>> {
        let mut sessions = Vec::new();
        let mut page = PageRequest {
            size: PageRequest::MAX_SIZE,
            token: None,
        };
        loop {
            let part = self.host.list_sessions(filter, &page).await?;
            // Sessions of template builds are not sandboxes.
            sessions.extend(
                part.items
                    .into_iter()
                    .filter(|session| !session.id.as_str().starts_with(BUILD_PREFIX)),
            );
            match part.next_token {
                None => return Ok(sessions),
                token => page.token = token,
            }
        }
    }
}
