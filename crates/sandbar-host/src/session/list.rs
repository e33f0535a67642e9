//! Getting and listing sessions.

use sandbar_core::{
    ByteCount, ErrorCode, Page, PageRequest, Result, SessionFilter, SessionId, SessionInfo,
    SessionState, SessionUsage,
};

use crate::{
    Host,
    engine::Engine,
    state::SessionRecord,
    verb::{Call, Verb},
};

impl Host {
    pub async fn get_session(&self, id: &SessionId) -> Result<SessionInfo> {
        let target = id.clone();
        let call = Call::on(id, Verb::GetSession);
        self.run(call, move |engine| {
            engine
                .record(&target)
                .and_then(|record| engine.info(record))
        })
        .await
    }

    /// As [`get_session`](Self::get_session), with the current resource usage.
    pub async fn get_session_with_usage(&self, id: &SessionId) -> Result<SessionInfo> {
        let target = id.clone();
        let call = Call::on(id, Verb::GetSession);
        self.run(call, move |engine| {
            engine
                .record(&target)
                .and_then(|record| engine.info_with_usage(record))
        })
        .await
    }

    /// Lists the sessions that match, oldest first.
    pub async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionInfo>> {
        let (filter, page) = (filter.clone(), page.clone());
        self.run(Call::of(Verb::ListSessions), move |engine| {
            engine.list(&filter, &page)
        })
        .await
    }
}

impl Engine {
    fn list(&self, filter: &SessionFilter, page: &PageRequest) -> Result<Page<SessionInfo>> {
        let size = page.checked_size()?;
        let after = page.token.as_deref().map(parse_token).transpose()?;
        let matches = |record: &SessionRecord| {
            filter.state.is_none_or(|state| record.state == state)
                && filter
                    .ids
                    .as_ref()
                    .is_none_or(|ids| ids.contains(&record.id))
                && filter
                    .labels
                    .iter()
                    .all(|(key, value)| record.labels.get(key) == Some(value))
        };
        let later = |record: &SessionRecord| {
            after.as_ref().is_none_or(|after| {
                (record.created.as_nanosecond(), &record.id) > (after.0, &after.1)
            })
        };
        let mut records: Vec<SessionRecord> = self
            .state
            .sessions()?
            .into_iter()
            .filter(|record| later(record) && matches(record))
            .collect();
        let more = records.len() > size;
        records.truncate(size);
        let next_token = records
            .last()
            .filter(|_| more)
            .map(|last| format!("{}.{}", last.created.as_nanosecond(), last.id));
        let info = |record| {
            if filter.with_usage {
                self.info_with_usage(record)
            } else {
                self.info(record)
            }
        };
        let items = records.into_iter().map(info).collect::<Result<_>>()?;
        Ok(Page { items, next_token })
    }

    /// Returns the bytes used by a session; zero if the storage fails, so that the failure neither
    /// hides the session nor fails the verb that returns it.
    pub(super) fn space_used(&self, id: &SessionId) -> ByteCount {
        self.storage.usage(id).map_or_else(
            |error| {
                // It may have been destroyed since its record was read.
                if error.code() != ErrorCode::SessionNotFound {
                    tracing::warn!(session = %id, error = error.chain(), "could not get the size of a session");
                }
                ByteCount(0)
            },
            |usage| usage.used,
        )
    }

    /// Returns a session as callers see it.
    pub(super) fn info(&self, record: SessionRecord) -> Result<SessionInfo> {
        let space_used = match record.state {
            SessionState::Failed | SessionState::Destroying | SessionState::Hibernated => {
                ByteCount(0)
            }
            _ => self.space_used(&record.id),
        };
        Ok(SessionInfo {
            storage: self.storage.kind(),
            runtime: self.runtime.kind(),
            space_used,
            turn_count: record.turns,
            snapshot_count: self.state.snapshot_count(&record.id)?,
            state: if self.is_reserved(&record.id) {
                SessionState::Creating
            } else {
                record.state
            },
            id: record.id,
            base: record.base,
            labels: record.labels,
            created: record.created,
            expires: record.expires,
            on_expiry: record.on_expiry,
            idle_timeout: record.idle_timeout,
            quota: record.quota,
            network: record.network,
            root_rights: record.root_rights,
            parent: record.parent,
            usage: None,
        })
    }

    fn info_with_usage(&self, record: SessionRecord) -> Result<SessionInfo> {
        let info = self.info(record)?;
        Ok(SessionInfo {
            usage: self.usage(&info),
            ..info
        })
    }

    /// Returns the current resource usage of a session. Does not wait for a box that is starting or
    /// stopping.
    fn usage(&self, info: &SessionInfo) -> Option<SessionUsage> {
        if !matches!(info.state, SessionState::Active | SessionState::Paused) {
            return None;
        }
        // A read must not keep an idle session from being paused.
        let session = self.session_unused(&info.id).ok()?;
        let Some(sandbox) = session.live_sandbox() else {
            return Some(SessionUsage::NOTHING);
        };
        let stats = sandbox.stats().ok()?;
        Some(SessionUsage {
            cpu_time: stats.cpu_time,
            memory: stats.memory,
            processes: stats.processes,
        })
    }
}

/// Parses a page token: creation time and id of the last session of a page.
fn parse_token(token: &str) -> Result<(i128, SessionId)> {
    let parts = token.split_once('.');
    parts
        .and_then(|(age, id)| Some((age.parse().ok()?, SessionId::new(id).ok()?)))
        .ok_or_else(PageRequest::bad_token)
}

/// Fuzz target: a token that parses has a valid session id.
#[cfg(any(fuzzing, test))]
pub fn page_token(bytes: &[u8]) {
    if let Ok((_, id)) = parse_token(&String::from_utf8_lossy(bytes)) {
        assert!(SessionId::new(id.as_str()).is_ok(), "{id}");
    }
}
