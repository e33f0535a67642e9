//! Forking a session.

use std::sync::Arc;

use jiff::Timestamp;
use sandbar_core::{
    Error, ForkRequest, Result, RootRights, SessionId, SessionInfo, SessionState, SnapshotName,
};
use sandbar_storage::ForkPoint;

use super::furnish::Furnishing;
use crate::{
    Host,
    audit::{Event, note},
    engine::Engine,
    state::{Intent, SessionRecord},
    verb::{Call, Verb},
};

impl Host {
    /// Forks a session at a snapshot, or as it is now, into one or more sessions: all of them, or
    /// none. The source is unchanged.
    pub async fn fork_session(
        &self,
        id: &SessionId,
        request: ForkRequest,
    ) -> Result<Vec<SessionInfo>> {
        let target = id.clone();
        let call = Call::on(id, Verb::ForkSession)
            .with("from", request.from.as_ref().map(SnapshotName::as_str))
            .with("count", request.count);
        self.run(call, move |engine| engine.fork(&target, &request))
            .await
    }
}

impl Engine {
    fn fork(self: &Arc<Self>, id: &SessionId, request: &ForkRequest) -> Result<Vec<SessionInfo>> {
        let ids = fork_ids(request)?;
        request.validate()?;
        let session = self.session(id)?;
        let _entry = session.admission.enter_shared()?;
        let source = self.present(id)?;
        if let Some(name) = &request.from {
            self.require_snapshot(id, name)?;
        }
        let reservation = self.reserve(&ids)?;
        self.require_space()?;
        let records: Vec<SessionRecord> = ids
            .iter()
            .map(|fork| fork_record(&source, fork, request))
            .collect();
        let point = request
            .from
            .clone()
            .map_or(ForkPoint::Now, ForkPoint::Snapshot);
        let intent = self.state.intend(&Intent::Create {
            sessions: ids.clone(),
        })?;
        let order = session.order_storage();
        let copy = || {
            records
                .iter()
                .try_for_each(|record| self.storage.fork(id, &point, &record.id, record.quota))
        };
        // One freeze for all, so that the forks are equal.
        let copied = self.copy_at(&point, &session, &source, copy);
        let made = copied.and_then(|()| {
            self.state.transaction(|database| {
                records
                    .iter()
                    .try_for_each(|record| record.insert(database))?;
                intent.clear(database)
            })
        });
        drop(order);
        if let Err(error) = made {
            let undone = ids.iter().try_for_each(|fork| self.storage.delete(fork));
            undone.and_then(|()| self.state.forget(intent)).unwrap_or_else(|undo| {
                tracing::error!(session = %id, error = undo.chain(), "could not undo a failed fork");
            });
            return Err(error);
        }
        reservation.keep();
        for record in &records {
            self.name_fork(record);
            self.schedule_janitor(record);
        }
        note(
            "sessions",
            ids.iter().map(SessionId::as_str).collect::<Vec<_>>(),
        );
        // The audit log of a fork begins with its source.
        for copy in &ids {
            let made = Event::of_verb(copy, Verb::CreateSession).with("forked_from", id.as_str());
            self.record_event(
                made.with("snapshot", request.from.as_ref().map(SnapshotName::as_str)),
            );
        }
        records
            .into_iter()
            .map(|record| self.info(record))
            .collect()
    }
}

impl Engine {
    /// Sets the host name in the tree of a fork. With bare root rights, the tree keeps the one of
    /// its base.
    fn name_fork(&self, record: &SessionRecord) {
        if record.root_rights == RootRights::Bare {
            return;
        }
        match self
            .session(&record.id)
            .and_then(|session| session.root(self))
        {
            Ok(root) => {
                Furnishing {
                    session: &record.id,
                    rights: record.root_rights,
                    workspace_user: None,
                }
                .apply(&root);
            }
            Err(error) => {
                tracing::warn!(session = %record.id, error = error.chain(), "could not set the host name of a fork");
            }
        }
    }
}

fn fork_ids(request: &ForkRequest) -> Result<Vec<SessionId>> {
    if !(1..=ForkRequest::MAX_COUNT).contains(&request.count) {
        return Err(Error::invalid(
            "count",
            format!("fork count {} is out of range", request.count),
        )
        .with_hint(format!("use 1 to {}", ForkRequest::MAX_COUNT)));
    }
    match request.ids.len() {
        0 => Ok((0..request.count).map(|_| SessionId::random()).collect()),
        given if given == request.count => Ok(request.ids.clone()),
        given => Err(Error::invalid(
            "ids",
            format!("{given} ids were given for {} forks", request.count),
        )
        .with_hint("give one id for each fork, or none")),
    }
}

fn fork_record(source: &SessionRecord, id: &SessionId, request: &ForkRequest) -> SessionRecord {
    let mut labels = source.labels.clone();
    labels.extend(request.labels.clone());
    SessionRecord {
        id: id.clone(),
        state: SessionState::Active,
        labels,
        created: Timestamp::now(),
        turns: 0,
        parent: Some((source.id.clone(), request.from.clone())),
        head: None,
        ..source.clone()
    }
}
