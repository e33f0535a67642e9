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
    Answer,
    details::{listed, state_of},
    list_query::{Page, Wanted},
    query::Query,
};
use crate::{json::Json, keys::Holder, surface::Surface, templates::BUILD_PREFIX};

const NEXT: HeaderName = HeaderName::from_static("x-next-token");
const RUNNING: HeaderName = HeaderName::from_static("x-total-running");

/// Sandboxes in any state, a page at a time, newest first unless it is said otherwise.
pub(super) async fn all(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    query: Query,
) -> Answer<(HeaderMap, Json<Value>)> {
    holder.require(Need::AnyToken)?;
    let (wanted, page) = (Wanted::read(&query)?, Page::read(&query)?);
    let notes = surface.notes().await?;
    let of = |session: &SessionInfo| notes.get(&session.id).cloned().unwrap_or_default();
    let mut sessions = surface.sessions_of(&holder).await?;
    sessions.retain(|session| wanted.includes(session, &of(session)));
    let running = sessions.iter().filter(|session| state_of(session) == "running").count();
    let (sessions, next) = page.cut(sessions);
    let mut headers = HeaderMap::new();
    if let Some(next) = next.and_then(|next| HeaderValue::from_str(&next).ok()) {
        headers.insert(NEXT, next);
    }
    if wanted.wants_running() {
        headers.insert(RUNNING, HeaderValue::from(running));
    }
    let pool = surface.pool_size().await;
    Ok((headers, Json(sessions.iter().map(|session| listed(session, &of(session), pool)).collect())))
}

/// Those that run, all at once.
pub(super) async fn running(
    State(surface): State<Arc<Surface>>,
    Extension(holder): Extension<Holder>,
    query: Query,
) -> Answer<Json<Value>> {
    holder.require(Need::AnyToken)?;
    let wanted = Wanted::read_running(&query)?;
    let (notes, pool) = (surface.notes().await?, surface.pool_size().await);
    let sessions = surface.sessions_of(&holder).await?;
    let listed = sessions.into_iter().filter_map(|session| {
        let note = notes.get(&session.id).cloned().unwrap_or_default();
        wanted.includes(&session, &note).then(|| listed(&session, &note, pool))
    });
    Ok(Json(listed.collect()))
}

impl Surface {
    /// The sessions this caller may look at, oldest first.
    async fn sessions_of(&self, holder: &Holder) -> Result<Vec<SessionInfo>> {
        self.sessions(&SessionFilter { ids: holder.grant.sessions(), ..SessionFilter::default() }).await
    }

    /// All that match.
    pub(super) async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>> {
        let mut sessions = Vec::new();
        let mut page = PageRequest { size: PageRequest::LARGEST_SIZE, token: None };
        loop {
            let part = self.host.list_sessions(filter, &page).await?;
            // What templates are built in is nobody's sandbox.
            sessions.extend(part.items.into_iter().filter(|session| !session.id.as_str().starts_with(BUILD_PREFIX)));
            match part.next_token {
                None => return Ok(sessions),
                token => page.token = token,
            }
        }
    }
}
