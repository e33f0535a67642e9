//! [`EventLog`]: events about sessions, for watchers.
//!
//! Every audited change of a session is an event, and so are the exits and readiness of its
//! processes. A ring buffer keeps the last events. Each watcher reads at its own pace; a slow one
//! misses events, learns how many, and delays no other.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use sandbar_core::{
    Actor, EventKind, EventNews, EventQuery, Labels, SessionEvent, SessionId, SessionState,
};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::{Host, engine::Engine};

/// Limits of the ring buffer.
const MAX_EVENTS: usize = 4096;
const MAX_BYTES: usize = 4 << 20;

/// Estimated size of an event without its details.
const EVENT_BASE_BYTES: usize = 256;

/// Sequence numbers per millisecond. The first number of a host is its start time in milliseconds
/// times this, so that no two runs share a number unless a host has more events per millisecond.
const NUMBERS_PER_MILLISECOND: u64 = 1 << 10;

impl Host {
    /// Watches events about sessions, from now on or after an earlier event.
    pub fn watch_events(&self, query: EventQuery) -> EventWatcher {
        self.engine().events.watch(query)
    }
}

/// Kind of an event, and the state that it leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Happening {
    pub(crate) kind: EventKind,
    /// New state of the session, if the event changed it.
    pub(crate) state: Option<SessionState>,
}

impl From<EventKind> for Happening {
    fn from(kind: EventKind) -> Self {
        Self { kind, state: None }
    }
}

impl From<SessionState> for Happening {
    fn from(state: SessionState) -> Self {
        Self {
            kind: EventKind::StateChanged,
            state: Some(state),
        }
    }
}

/// An event without its sequence number.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) session: SessionId,
    pub(crate) actor: Actor,
    pub(crate) happening: Happening,
    pub(crate) outcome: &'static str,
    pub(crate) detail: Map<String, Value>,
}

/// The last events of all sessions.
#[derive(Debug)]
pub(crate) struct EventLog {
    ring: Mutex<Ring>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Arc<Kept>>,
    bytes: usize,
    /// Sequence number before the first event of this run.
    base: u64,
    /// Sequence number of the next event.
    next: u64,
    /// Labels of sessions, which never change. Kept here since the record of a session is deleted
    /// before its last event.
    labels: HashMap<SessionId, Arc<Labels>>,
}

#[derive(Debug)]
struct Kept {
    event: SessionEvent,
    labels: Arc<Labels>,
    bytes: usize,
}

impl Ring {
    fn start(&self) -> u64 {
        self.next - self.events.len() as u64
    }
}

impl EventLog {
    pub(crate) fn new() -> Arc<Self> {
        let now = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        Self::starting_after(now * NUMBERS_PER_MILLISECOND)
    }

    fn starting_after(base: u64) -> Arc<Self> {
        let ring = Ring {
            events: VecDeque::new(),
            bytes: 0,
            base,
            next: base + 1,
            labels: HashMap::new(),
        };
        Arc::new(Self {
            ring: Mutex::new(ring),
            changed: watch::Sender::new(()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the labels of a session.
    pub(crate) fn remember(&self, session: &SessionId, labels: Labels) {
        self.lock().labels.insert(session.clone(), Arc::new(labels));
    }

    fn knows(&self, session: &SessionId) -> bool {
        self.lock().labels.contains_key(session)
    }

    fn add(&self, news: News) {
        let News {
            session,
            actor,
            happening: Happening { kind, state },
            outcome,
            detail,
        } = news;
        let bytes = EVENT_BASE_BYTES
            + detail
                .iter()
                .map(|(key, value)| key.len() + value.to_string().len())
                .sum::<usize>();
        let mut ring = self.lock();
        let labels = match kind {
            EventKind::SessionDestroyed => ring.labels.remove(&session),
            _ => ring.labels.get(&session).cloned(),
        };
        let (sequence, at, outcome) = (ring.next, Timestamp::now(), outcome.to_owned());
        let event = SessionEvent {
            sequence,
            at,
            session,
            actor,
            kind,
            state,
            outcome,
            detail,
        };
        ring.events.push_back(Arc::new(Kept {
            event,
            labels: labels.unwrap_or_default(),
            bytes,
        }));
        ring.next += 1;
        ring.bytes += bytes;
        while ring.events.len() > MAX_EVENTS || ring.bytes > MAX_BYTES {
            let Some(oldest) = ring.events.pop_front() else {
                break;
            };
            ring.bytes -= oldest.bytes;
        }
        drop(ring);
        self.changed.send_replace(());
    }

    fn watch(self: &Arc<Self>, query: EventQuery) -> EventWatcher {
        let changed = self.changed.subscribe();
        let ring = self.lock();
        let head = ring.next - 1;
        let (next, lost) = match query.since {
            None => (ring.next, false),
            Some(since) if (ring.base..=head).contains(&since) => (since + 1, false),
            // A sequence number of another run.
            Some(_) => (ring.start(), true),
        };
        drop(ring);
        EventWatcher {
            log: Arc::clone(self),
            changed,
            query,
            head,
            next,
            lost,
        }
    }
}

impl Engine {
    /// Sends an event to every watcher.
    pub(crate) fn send_event(&self, news: News) {
        // The first event of this session since the host started.
        if !self.events.knows(&news.session)
            && let Ok(Some(record)) = self.state.session(&news.session)
        {
            self.events.remember(&news.session, record.labels);
        }
        self.events.add(news);
    }
}

/// A watcher of the events of a host.
#[derive(Debug)]
pub struct EventWatcher {
    log: Arc<EventLog>,
    changed: watch::Receiver<()>,
    query: EventQuery,
    head: u64,
    /// Sequence number of the next event to read.
    next: u64,
    /// Whether the query named an event of another run.
    lost: bool,
}

impl EventWatcher {
    /// Returns the sequence number of the last event before the watch began.
    pub fn sequence(&self) -> u64 {
        self.head
    }

    /// Returns the next event, or the number of missed ones. Cancel-safe.
    pub async fn next(&mut self) -> EventNews {
        loop {
            self.changed.borrow_and_update();
            if let Some(news) = self.look() {
                return news;
            }
            if self.changed.changed().await.is_err() {
                // Cannot happen: `self` holds the log, and it holds the sender.
                std::future::pending::<()>().await;
            }
        }
    }

    fn look(&mut self) -> Option<EventNews> {
        if std::mem::take(&mut self.lost) {
            return Some(EventNews::Missed(None));
        }
        let ring = self.log.lock();
        let start = ring.start();
        if self.next < start {
            let missed = start - self.next;
            self.next = start;
            return Some(EventNews::Missed(Some(missed)));
        }
        while self.next < ring.next {
            let index = usize::try_from(self.next - start).unwrap_or(usize::MAX);
            self.next += 1;
            if let Some(kept) = ring
                .events
                .get(index)
                .filter(|kept| is_wanted(&self.query, kept))
            {
                return Some(EventNews::Happened(kept.event.clone()));
            }
        }
        None
    }
}

fn is_wanted(query: &EventQuery, kept: &Kept) -> bool {
    query
        .session
        .as_ref()
        .is_none_or(|session| *session == kept.event.session)
        && (query.kinds.is_empty() || query.kinds.contains(&kept.event.kind))
        && query
            .labels
            .iter()
            .all(|(key, value)| kept.labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn id(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    fn news(session: &str, kind: EventKind) -> News {
        let (actor, detail) = (Actor::host(), Map::new());
        News {
            session: id(session),
            actor,
            happening: kind.into(),
            outcome: "ok",
            detail,
        }
    }

    fn all(watcher: &mut EventWatcher) -> Vec<(String, EventKind)> {
        std::iter::from_fn(|| watcher.next().now_or_never())
            .map(|news| match news {
                EventNews::Happened(event) => (event.session.to_string(), event.kind),
                EventNews::Missed(_) => panic!("nothing was missed"),
            })
            .collect()
    }

    #[test]
    fn watcher_gets_matching_events_from_then_on() {
        let log = EventLog::starting_after(100);
        log.remember(&id("one"), [("task".to_owned(), "1".to_owned())].into());
        log.add(news("one", EventKind::SessionCreated));
        let mut everything = log.watch(EventQuery::default());
        assert_eq!(everything.sequence(), 101);
        let mut of_one = log.watch(EventQuery {
            session: Some(id("one")),
            ..EventQuery::default()
        });
        let mut tools = log.watch(EventQuery {
            kinds: vec![EventKind::ToolFinished],
            ..EventQuery::default()
        });
        let labels: Labels = [("task".to_owned(), "1".to_owned())].into();
        let mut labelled = log.watch(EventQuery {
            labels,
            since: Some(100),
            ..EventQuery::default()
        });
        log.add(news("two", EventKind::ToolFinished));
        log.add(news("one", EventKind::SessionDestroyed));
        let (one, two) = ("one".to_owned(), "two".to_owned());
        let destroyed = (one.clone(), EventKind::SessionDestroyed);
        assert_eq!(
            all(&mut everything),
            [(two.clone(), EventKind::ToolFinished), destroyed.clone()]
        );
        assert_eq!(all(&mut of_one), std::slice::from_ref(&destroyed));
        assert_eq!(all(&mut tools), [(two, EventKind::ToolFinished)]);
        // The last event of a session has its labels, and they are dropped with it.
        assert_eq!(
            all(&mut labelled),
            [(one, EventKind::SessionCreated), destroyed]
        );
        assert!(log.lock().labels.is_empty());
    }

    #[test]
    fn missed_events_are_counted() {
        let log = EventLog::starting_after(0);
        let mut slow = log.watch(EventQuery::default());
        for _ in 0..MAX_EVENTS + 3 {
            log.add(news("one", EventKind::ToolFinished));
        }
        assert_eq!(slow.next().now_or_never(), Some(EventNews::Missed(Some(3))));
        assert_eq!(all(&mut slow).len(), MAX_EVENTS);
        let mut late = log.watch(EventQuery {
            since: Some(1),
            ..EventQuery::default()
        });
        assert_eq!(late.next().now_or_never(), Some(EventNews::Missed(Some(2))));
    }

    #[test]
    fn sequence_numbers_of_another_run_are_recognised() {
        let log = EventLog::starting_after(1000);
        log.add(news("one", EventKind::ToolFinished));
        for since in [0, 999, 1002] {
            let mut watcher = log.watch(EventQuery {
                since: Some(since),
                ..EventQuery::default()
            });
            assert_eq!(
                watcher.next().now_or_never(),
                Some(EventNews::Missed(None)),
                "{since}"
            );
            assert_eq!(all(&mut watcher).len(), 1, "{since}");
        }
        let mut nothing_new = log.watch(EventQuery {
            since: Some(1001),
            ..EventQuery::default()
        });
        assert_eq!(nothing_new.next().now_or_never(), None);
    }

    #[test]
    fn large_events_evict_old_ones_sooner() {
        let log = EventLog::starting_after(0);
        for _ in 0..100 {
            let detail = Map::from_iter([("text".to_owned(), "x".repeat(100 << 10).into())]);
            log.add(News {
                detail,
                ..news("one", EventKind::ToolFinished)
            });
        }
        let ring = log.lock();
        assert!(
            ring.bytes <= MAX_BYTES && ring.events.len() < 50,
            "{}",
            ring.events.len()
        );
    }
}
