//! Sessions.

use std::time::Duration;

use sandbar_core::{
    ForkRequest, Keep, OnExpiry, Page, PageRequest, Result, SessionFilter, SessionId, SessionInfo, SessionSpec,
};
use sandbar_proto::v1;

use crate::{Client, client::incomplete};

impl Client {
    pub async fn create_session(&self, spec: SessionSpec) -> Result<SessionInfo> {
        let answer = self.once(self.rpc.create_session(spec.into())).await?.into_owned();
        answer.session.into_option().ok_or_else(|| incomplete("session"))?.try_into()
    }

    pub async fn get_session(&self, id: &SessionId) -> Result<SessionInfo> {
        self.ask_for_session(id, false).await
    }

    /// As [`get_session`](Self::get_session), and what runs in it uses now.
    pub async fn get_session_with_usage(&self, id: &SessionId) -> Result<SessionInfo> {
        self.ask_for_session(id, true).await
    }

    async fn ask_for_session(&self, id: &SessionId, include_usage: bool) -> Result<SessionInfo> {
        let session_id = id.as_str().to_owned();
        let request = v1::GetSessionRequest { session_id, include_usage, ..Default::default() };
        let answer = self.repeat(|| self.rpc.get_session(request.clone())).await?.into_owned();
        answer.session.into_option().ok_or_else(|| incomplete("session"))?.try_into()
    }

    /// One page of the sessions that match, in the order they were made.
    pub async fn list_sessions(&self, filter: &SessionFilter, page: &PageRequest) -> Result<Page<SessionInfo>> {
        let request = v1::ListSessionsRequest::new(filter, page);
        let answer = self.repeat(|| self.rpc.list_sessions(request.clone())).await?.into_owned();
        let items = answer.sessions.into_iter().map(TryInto::try_into).collect::<Result<_>>()?;
        let next_token = if answer.next_page_token.is_empty() { None } else { Some(answer.next_page_token) };
        Ok(Page { items, next_token })
    }

    /// All sessions that match, page after page.
    pub async fn all_sessions(&self, filter: &SessionFilter) -> Result<Vec<SessionInfo>> {
        let mut request = PageRequest { size: PageRequest::LARGEST_SIZE, token: None };
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
        let request = v1::DestroySessionRequest { session_id: id.as_str().to_owned(), ..Default::default() };
        self.once(self.rpc.destroy_session(request)).await.map(drop)
    }

    /// Says how long a session has from now, and what becomes of it then. Without `timeout` it has no end; without `then`,
    /// the same becomes of it as before.
    pub async fn set_expiry(
        &self,
        id: &SessionId,
        timeout: Option<Duration>,
        then: Option<OnExpiry>,
    ) -> Result<SessionInfo> {
        let request = v1::SetExpiryRequest::new(id, timeout, then);
        let answer = self.once(self.rpc.set_expiry(request)).await?.into_owned();
        answer.session.into_option().ok_or_else(|| incomplete("session"))?.try_into()
    }

    /// Freezes what runs in a session.
    pub async fn pause_session(&self, id: &SessionId) -> Result<SessionInfo> {
        self.pause_session_keeping(id, Keep::Memory).await
    }

    /// Stops the clock of a session, with what runs in it or without.
    pub async fn pause_session_keeping(&self, id: &SessionId, keep: Keep) -> Result<SessionInfo> {
        let request = v1::PauseSessionRequest::new(id, keep);
        let answer = self.once(self.rpc.pause_session(request)).await?.into_owned();
        answer.session.into_option().ok_or_else(|| incomplete("session"))?.try_into()
    }

    /// Lets a paused session go on.
    pub async fn resume_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let request = v1::ResumeSessionRequest { session_id: id.as_str().to_owned(), ..Default::default() };
        let answer = self.once(self.rpc.resume_session(request)).await?.into_owned();
        answer.session.into_option().ok_or_else(|| incomplete("session"))?.try_into()
    }

    /// Puts a session away into the object store.
    pub async fn hibernate_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let request = v1::HibernateSessionRequest { session_id: id.as_str().to_owned(), ..Default::default() };
        let answer = self.once(self.rpc.hibernate_session(request)).await?.into_owned();
        answer.session.into_option().ok_or_else(|| incomplete("session"))?.try_into()
    }

    /// Brings a hibernated session back.
    pub async fn wake_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let request = v1::WakeSessionRequest { session_id: id.as_str().to_owned(), ..Default::default() };
        let answer = self.once(self.rpc.wake_session(request)).await?.into_owned();
        answer.session.into_option().ok_or_else(|| incomplete("session"))?.try_into()
    }

    pub async fn fork_session(&self, id: &SessionId, request: ForkRequest) -> Result<Vec<SessionInfo>> {
        let answer = self.once(self.rpc.fork_session(v1::ForkSessionRequest::new(id, request))).await?.into_owned();
        answer.sessions.into_iter().map(TryInto::try_into).collect()
    }
}
