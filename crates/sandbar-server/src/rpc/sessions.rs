//! Session lifecycle calls.

use connectrpc::{Response, ServiceResult};
use jiff::Timestamp;
use sandbar_core::{Error, SessionFilter, SessionId, SessionSpec};
use sandbar_proto::v1;

use super::{
    errors::{failed, failed_in},
    service::Service,
};
use crate::access::Caller;

pub(super) async fn create_session(
    service: &Service,
    request: v1::CreateSessionRequest,
) -> ServiceResult<v1::CreateSessionResponse> {
    let spec = SessionSpec::try_from(request).map_err(failed)?;
    let id = spec.id.clone();
    let session = service
        .host
        .create_session(spec)
        .await
        .map_err(|error| match &id {
            Some(id) => failed_in(id)(error),
            None => failed(error),
        })?;
    Response::ok(v1::CreateSessionResponse {
        session: v1::Session::from(session).into(),
        ..Default::default()
    })
}

pub(super) async fn get_session(
    service: &Service,
    request: v1::GetSessionRequest,
) -> ServiceResult<v1::GetSessionResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let found = if request.include_usage {
        service.host.get_session_with_usage(&id).await
    } else {
        service.host.get_session(&id).await
    };
    let session = found.map_err(failed_in(&id))?;
    Response::ok(v1::GetSessionResponse {
        session: v1::Session::from(session).into(),
        ..Default::default()
    })
}

/// Lists only sessions that the caller's scopes cover: the call needs no particular scope.
pub(super) async fn list_sessions(
    service: &Service,
    caller: &Caller,
    request: v1::ListSessionsRequest,
) -> ServiceResult<v1::ListSessionsResponse> {
    let (filter, page) = request.unpack().map_err(failed)?;
    let filter = SessionFilter {
        ids: caller.grant().sessions(),
        ..filter
    };
    let page = service
        .host
        .list_sessions(&filter, &page)
        .await
        .map_err(failed)?;
    Response::ok(v1::ListSessionsResponse {
        sessions: page.items.into_iter().map(Into::into).collect(),
        next_page_token: page.next_token.unwrap_or_default(),
        ..Default::default()
    })
}

pub(super) async fn destroy_session(
    service: &Service,
    request: v1::DestroySessionRequest,
) -> ServiceResult<v1::DestroySessionResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    service
        .host
        .destroy_session(&id)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::DestroySessionResponse::default())
}

pub(super) async fn set_expiry(
    service: &Service,
    request: v1::SetExpiryRequest,
) -> ServiceResult<v1::SetExpiryResponse> {
    let (id, timeout, then) = request.unpack().map_err(failed)?;
    let expires = timeout.map(|timeout| {
        Timestamp::now().checked_add(timeout).map_err(|error| {
            failed(
                Error::invalid("timeout", "timeout is too long")
                    .with_hint("use a shorter timeout")
                    .with_source(error),
            )
        })
    });
    let session = service
        .host
        .set_expiry(&id, expires.transpose()?, then)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::SetExpiryResponse {
        session: v1::Session::from(session).into(),
        ..Default::default()
    })
}

pub(super) async fn pause_session(
    service: &Service,
    request: v1::PauseSessionRequest,
) -> ServiceResult<v1::PauseSessionResponse> {
    let (id, keep) = request.unpack().map_err(failed)?;
    let session = service
        .host
        .pause_session_keeping(&id, keep)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::PauseSessionResponse {
        session: v1::Session::from(session).into(),
        ..Default::default()
    })
}

pub(super) async fn resume_session(
    service: &Service,
    request: v1::ResumeSessionRequest,
) -> ServiceResult<v1::ResumeSessionResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let session = service
        .host
        .resume_session(&id)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::ResumeSessionResponse {
        session: v1::Session::from(session).into(),
        ..Default::default()
    })
}

pub(super) async fn hibernate_session(
    service: &Service,
    request: v1::HibernateSessionRequest,
) -> ServiceResult<v1::HibernateSessionResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let session = service
        .host
        .hibernate_session(&id)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::HibernateSessionResponse {
        session: v1::Session::from(session).into(),
        ..Default::default()
    })
}

pub(super) async fn wake_session(
    service: &Service,
    request: v1::WakeSessionRequest,
) -> ServiceResult<v1::WakeSessionResponse> {
    let id = SessionId::new(request.session_id).map_err(failed)?;
    let session = service
        .host
        .wake_session(&id)
        .await
        .map_err(failed_in(&id))?;
    Response::ok(v1::WakeSessionResponse {
        session: v1::Session::from(session).into(),
        ..Default::default()
    })
}

pub(super) async fn fork_session(
    service: &Service,
    request: v1::ForkSessionRequest,
) -> ServiceResult<v1::ForkSessionResponse> {
    let (source, request) = request.unpack().map_err(failed)?;
    let sessions = service
        .host
        .fork_session(&source, request)
        .await
        .map_err(failed_in(&source))?;
    Response::ok(v1::ForkSessionResponse {
        sessions: sessions.into_iter().map(Into::into).collect(),
        ..Default::default()
    })
}
