//! Session calls.

use std::time::Duration;

use sandbar_core::{
    ForkRequest, Keep, OnExpiry, Page, PageRequest, Result, SessionFilter, SessionId, SessionInfo,
    SessionSpec,
};
use sandbar_proto::v1;

use crate::{Client, client::required};

impl Client {
    pub async fn create_session(&self, spec: SessionSpec) -> Result<SessionInfo> {
        let answer = self
            .once(self.rpc.create_session(spec.into()))
            .await?
            .into_owned();
        required("session", answer.session.into_option())
    }

    pub async fn get_session(&self, id: &SessionId) -> Result<SessionInfo> {
        self.ask_for_session(id, false).await
    }

    /// Like [`get_session`](Self::get_session), with the resources in use.
    pub async fn get_session_with_usage(&self, id: &SessionId) -> Result<SessionInfo> {
        self.ask_for_session(id, true).await
    }

    async fn ask_for_session(&self, id: &SessionId, include_usage: bool) -> Result<SessionInfo> {
        let session_id = id.as_str().to_owned();
        let request = v1::GetSessionRequest {
            session_id,
            include_usage,
            ..Default::default()
        };
        let answer = self
            .repeat(|| self.rpc.get_session(request.clone()))
            .await?
            .into_owned();
        required("session", answer.session.into_option())
    }

    /// Returns one page of the matching sessions, oldest first.
    pub async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionInfo>> {
        let request = v1::ListSessionsRequest::new(filter, page);
        let answer = self
            .repeat(|| self.rpc.list_sessions(request.clone()))
            .await?
            .into_owned();
        let items = answer
            .sessions
            .into_iter()
            .map(TryInto::try_into)
            .collect::<Result<_>>()?;
        let next_token = if answer.next_page_token.is_empty() {
            None
        } else {
            Some(answer.next_page_token)
        };
        Ok(Page { items, next_token })
    }

    /// Returns all matching sessions.
    pub async fn all_sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>> {
        let mut request = PageRequest {
            size: PageRequest::MAX_SIZE,
            token: None,
        };
        let mut sessions = Vec::new();
        loop {
            let page = self.list_sessions(filter, &request).await?;
            sessions.extend(page.items);
            match page.next_token {
                Some(token) => request.token = Some(token),
                None => return Ok(sessions),
            }
        }
    }

    pub async fn destroy_session(&self, id: &SessionId) -> Result<()> {
        let request = v1::DestroySessionRequest {
            session_id: id.as_str().to_owned(),
            ..Default::default()
        };
        self.once(self.rpc.destroy_session(request)).await.map(drop)
    }

    /// Sets the time from now after which a session expires, and the action on expiry. `timeout:
    /// None` removes the expiry; `then: None` keeps the action.
    pub async fn set_expiry(
        &self,
        id: &SessionId,
        timeout: Option<Duration>,
        then: Option<OnExpiry>,
    ) -> Result<SessionInfo> {
        let request = v1::SetExpiryRequest::new(id, timeout, then);
        let answer = self.once(self.rpc.set_expiry(request)).await?.into_owned();
        required("session", answer.session.into_option())
    }

    /// Pauses a session: freezes its processes.
    pub async fn pause_session(&self, id: &SessionId) -> Result<SessionInfo> {
        self.pause_session_keeping(id, Keep::Memory).await
    }

    /// Pauses a session, and keeps its processes or ends them.
    pub async fn pause_session_keeping(&self, id: &SessionId, keep: Keep) -> Result<SessionInfo> {
        let request = v1::PauseSessionRequest::new(id, keep);
        let answer = self
            .once(self.rpc.pause_session(request))
            .await?
            .into_owned();
        required("session", answer.session.into_option())
    }

    /// Resumes a paused session.
    pub async fn resume_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let request = v1::ResumeSessionRequest {
            session_id: id.as_str().to_owned(),
            ..Default::default()
        };
        let answer = self
            .once(self.rpc.resume_session(request))
            .await?
            .into_owned();
        required("session", answer.session.into_option())
    }

    /// Hibernates a session into the object store.
    pub async fn hibernate_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let request = v1::HibernateSessionRequest {
            session_id: id.as_str().to_owned(),
            ..Default::default()
        };
        let answer = self
            .once(self.rpc.hibernate_session(request))
            .await?
            .into_owned();
        required("session", answer.session.into_option())
    }

    /// Wakes a hibernated session.
    pub async fn wake_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let request = v1::WakeSessionRequest {
            session_id: id.as_str().to_owned(),
            ..Default::default()
        };
        let answer = self
            .once(self.rpc.wake_session(request))
            .await?
            .into_owned();
        required("session", answer.session.into_option())
    }

    pub async fn fork_session(
        &self,
        id: &SessionId,
        request: ForkRequest,
    ) -> Result<Vec<SessionInfo>> {
        let answer = self
            .once(
                self.rpc
                    .fork_session(v1::ForkSessionRequest::new(id, request)),
            )
            .await?
            .into_owned();
        answer.sessions.into_iter().map(TryInto::try_into).collect()
    }
}
