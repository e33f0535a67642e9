//! Sessions.

use connectrpc::{ConnectError, Response, ServiceResult};
use jiff::Timestamp;
use sandbar_core::{Error, SessionFilter, SessionId, SessionSpec};
use sandbar_proto::v1;

use crate::{
    access::Caller,
    failure::{failed, failed_in},
    service::Service,
};

impl Service {
    pub(crate) async fn make_session(
        &self,
        request: v1::CreateSessionRequest,
    ) -> ServiceResult<v1::CreateSessionResponse> {
        let spec = SessionSpec::try_from(request).map_err(failed)?;
        let id = spec.id.clone();
        let session = self.host.create_session(spec).await.map_err(|error| match &id {
            Some(id) => failed_in(id)(error),
            None => failed(error),
        })?;
        Response::ok(v1::CreateSessionResponse { session: v1::Session::from(session).into(), ..Default::default() })
    }

    pub(crate) async fn find_session(&self, id: &str, usage: bool) -> ServiceResult<v1::GetSessionResponse> {
        let id = SessionId::new(id).map_err(failed)?;
        let found = if usage { self.host.get_session_with_usage(&id).await } else { self.host.get_session(&id).await };
        let session = found.map_err(failed_in(&id))?;
        Response::ok(v1::GetSessionResponse { session: v1::Session::from(session).into(), ..Default::default() })
    }

    /// Tells of the sessions its caller may look at, and of no others.
    pub(crate) async fn page_of_sessions(
        &self,
        caller: &Caller,
        request: v1::ListSessionsRequest,
    ) -> ServiceResult<v1::ListSessionsResponse> {
        let (filter, page) = request.unpack().map_err(failed)?;
        let filter = SessionFilter { ids: caller.grant().sessions(), ..filter };
        let page = self.host.list_sessions(&filter, &page).await.map_err(failed)?;
        Response::ok(v1::ListSessionsResponse {
            sessions: page.items.into_iter().map(Into::into).collect(),
            next_page_token: page.next_token.unwrap_or_default(),
            ..Default::default()
        })
    }

    pub(crate) async fn remove_session(&self, id: &str) -> ServiceResult<v1::DestroySessionResponse> {
        let id = SessionId::new(id).map_err(failed)?;
        self.host.destroy_session(&id).await.map_err(failed_in(&id))?;
        Response::ok(v1::DestroySessionResponse::default())
    }

    pub(crate) async fn set_end(&self, request: v1::SetExpiryRequest) -> Result<v1::Session, ConnectError> {
        let (id, timeout, then) = request.unpack().map_err(failed)?;
        let expires = timeout.map(|timeout| {
            Timestamp::now().checked_add(timeout).map_err(|error| {
                failed(Error::invalid("timeout", "the time is too long").with_hint("use less").with_source(error))
            })
        });
        self.host.set_expiry(&id, expires.transpose()?, then).await.map(Into::into).map_err(failed_in(&id))
    }

    pub(crate) async fn pause(&self, request: v1::PauseSessionRequest) -> Result<v1::Session, ConnectError> {
        let (id, keep) = request.unpack().map_err(failed)?;
        self.host.pause_session_keeping(&id, keep).await.map(Into::into).map_err(failed_in(&id))
    }

    pub(crate) async fn resume(&self, id: &str) -> Result<v1::Session, ConnectError> {
        let id = SessionId::new(id).map_err(failed)?;
        self.host.resume_session(&id).await.map(Into::into).map_err(failed_in(&id))
    }

    pub(crate) async fn hibernate(&self, id: &str) -> Result<v1::Session, ConnectError> {
        let id = SessionId::new(id).map_err(failed)?;
        self.host.hibernate_session(&id).await.map(Into::into).map_err(failed_in(&id))
    }

    pub(crate) async fn wake(&self, id: &str) -> Result<v1::Session, ConnectError> {
        let id = SessionId::new(id).map_err(failed)?;
        self.host.wake_session(&id).await.map(Into::into).map_err(failed_in(&id))
    }

    pub(crate) async fn copy_session(&self, request: v1::ForkSessionRequest) -> ServiceResult<v1::ForkSessionResponse> {
        let (source, request) = request.unpack().map_err(failed)?;
        let sessions = self.host.fork_session(&source, request).await.map_err(failed_in(&source))?;
        Response::ok(v1::ForkSessionResponse {
            sessions: sessions.into_iter().map(Into::into).collect(),
            ..Default::default()
        })
    }
}
