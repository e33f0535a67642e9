//! Session events.

use buffa::EnumValue;
use sandbar_core::{
    Actor, Error, EventKind, EventNews, EventQuery, Result, SessionEvent, SessionId,
};

use super::{
    json::{pack_object, unpack_object},
    scalar::{known, missing, pack_time, unpack_time},
    session::unpack_state,
};
use crate::v1::{self, watch_events_response::Event};

impl From<EventKind> for v1::EventKind {
    fn from(kind: EventKind) -> Self {
        match kind {
            EventKind::SessionCreated => Self::SessionCreated,
            EventKind::StateChanged => Self::StateChanged,
            EventKind::SessionDestroyed => Self::SessionDestroyed,
            EventKind::SessionForked => Self::SessionForked,
            EventKind::TurnCompleted => Self::TurnCompleted,
            EventKind::SnapshotTaken => Self::SnapshotTaken,
            EventKind::SnapshotDeleted => Self::SnapshotDeleted,
            EventKind::RolledBack => Self::RolledBack,
            EventKind::ProcessLaunched => Self::ProcessLaunched,
            EventKind::ProcessReady => Self::ProcessReady,
            EventKind::ProcessExited => Self::ProcessExited,
            EventKind::ToolFinished => Self::ToolFinished,
        }
    }
}

impl TryFrom<v1::EventKind> for EventKind {
    type Error = Error;

    fn try_from(wire: v1::EventKind) -> Result<Self> {
        Ok(match wire {
            v1::EventKind::EVENT_KIND_UNSPECIFIED => return Err(missing("kind")),
            v1::EventKind::EVENT_KIND_SESSION_CREATED => Self::SessionCreated,
            v1::EventKind::EVENT_KIND_STATE_CHANGED => Self::StateChanged,
            v1::EventKind::EVENT_KIND_SESSION_DESTROYED => Self::SessionDestroyed,
            v1::EventKind::EVENT_KIND_SESSION_FORKED => Self::SessionForked,
            v1::EventKind::EVENT_KIND_TURN_COMPLETED => Self::TurnCompleted,
            v1::EventKind::EVENT_KIND_SNAPSHOT_TAKEN => Self::SnapshotTaken,
            v1::EventKind::EVENT_KIND_SNAPSHOT_DELETED => Self::SnapshotDeleted,
            v1::EventKind::EVENT_KIND_ROLLED_BACK => Self::RolledBack,
            v1::EventKind::EVENT_KIND_PROCESS_LAUNCHED => Self::ProcessLaunched,
            v1::EventKind::EVENT_KIND_PROCESS_READY => Self::ProcessReady,
            v1::EventKind::EVENT_KIND_PROCESS_EXITED => Self::ProcessExited,
            v1::EventKind::EVENT_KIND_TOOL_FINISHED => Self::ToolFinished,
        })
    }
}

impl v1::WatchEventsRequest {
    pub fn new(query: EventQuery) -> Self {
        Self {
            session_id: query.session.map(String::from).unwrap_or_default(),
            labels: query.labels,
            kinds: query
                .kinds
                .into_iter()
                .map(|kind| v1::EventKind::from(kind).into())
                .collect(),
            since: query.since,
            ..Default::default()
        }
    }

    /// Returns the query.
    pub fn unpack(self) -> Result<EventQuery> {
        let session = Some(self.session_id)
            .filter(|id| !id.is_empty())
            .map(SessionId::new)
            .transpose()?;
        let kind = |kind: EnumValue<v1::EventKind>| {
            EventKind::try_from(known("kinds", kind)?).map_err(|error| error.with_field("kinds"))
        };
        let kinds = self.kinds.into_iter().map(kind).collect::<Result<_>>()?;
        Ok(EventQuery {
            session,
            labels: self.labels,
            kinds,
            since: self.since,
        })
    }
}

impl From<SessionEvent> for v1::SessionEvent {
    fn from(event: SessionEvent) -> Self {
        Self {
            sequence: event.sequence,
            at: pack_time(event.at),
            session_id: event.session.into(),
            actor: event.actor.as_str().to_owned(),
            kind: v1::EventKind::from(event.kind).into(),
            state: event
                .state
                .map_or(v1::SessionState::Unspecified, Into::into)
                .into(),
            outcome: event.outcome,
            detail: pack_object(&event.detail).into(),
            ..Default::default()
        }
    }
}

impl TryFrom<v1::SessionEvent> for SessionEvent {
    type Error = Error;

    fn try_from(wire: v1::SessionEvent) -> Result<Self> {
        Ok(Self {
            sequence: wire.sequence,
            at: unpack_time("at", wire.at)?,
            session: SessionId::new(wire.session_id)?,
            actor: Actor::new(&wire.actor)?,
            kind: known("kind", wire.kind)?.try_into()?,
            state: unpack_state(known("state", wire.state)?),
            outcome: wire.outcome,
            detail: unpack_object("detail", wire.detail)?,
        })
    }
}

impl From<EventNews> for v1::WatchEventsResponse {
    fn from(news: EventNews) -> Self {
        let event = match news {
            EventNews::Happened(event) => v1::SessionEvent::from(event).into(),
            EventNews::Missed(count) => v1::EventsMissed {
                count,
                ..Default::default()
            }
            .into(),
        };
        Self {
            event: Some(event),
            ..Default::default()
        }
    }
}

/// Returns the event of a message; `None` for messages about the call itself.
pub fn unpack_event_news(event: Event) -> Result<Option<EventNews>> {
    Ok(match event {
        Event::Happened(event) => Some(EventNews::Happened((*event).try_into()?)),
        Event::Missed(missed) => Some(EventNews::Missed(missed.count)),
        Event::Ready(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sandbar_core::SessionState;

    use super::*;

    #[test]
    fn event_query_and_event_survive_the_wire() {
        for query in [
            EventQuery::default(),
            EventQuery {
                session: Some(SessionId::new("box").unwrap()),
                labels: [("task".to_owned(), "42".to_owned())].into(),
                kinds: EventKind::ALL.to_vec(),
                since: Some(0),
            },
        ] {
            assert_eq!(
                v1::WatchEventsRequest::new(query.clone()).unpack().unwrap(),
                query
            );
        }
        for kind in EventKind::ALL {
            let event = SessionEvent {
                sequence: 1 << 50,
                at: Timestamp::new(1_700_000_000, 5).unwrap(),
                session: SessionId::new("box").unwrap(),
                actor: Actor::host(),
                kind: *kind,
                state: Some(SessionState::Paused),
                outcome: "ok".into(),
                detail: serde_json::Map::from_iter([("snapshot".to_owned(), "a".into())]),
            };
            for news in [
                EventNews::Happened(event),
                EventNews::Missed(None),
                EventNews::Missed(Some(3)),
            ] {
                let wire = v1::WatchEventsResponse::from(news.clone());
                assert_eq!(unpack_event_news(wire.event.unwrap()).unwrap(), Some(news));
            }
        }
    }
}
