//! [`DecisionLog`]: buffers egress decisions on their way to the audit log.
//!
//! The gateway must not wait for a disk, and a session must not be able to fill one. Equal
//! decisions become one entry with a count, and decisions of a session beyond [`MAX_BUFFERED`], or
//! beyond its [`EntryRate`], are only counted.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};

use sandbar_core::{NetworkDecision, NetworkVerdict, SecretName, SessionId};
use sandbar_egress::DecisionSink;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{audit::Event, blocking::blocking, engine::Engine};

/// Different decisions of one session that are buffered.
const MAX_BUFFERED: usize = 64;

/// Entries about different decisions that a session may cause at once, and the time after which it
/// may cause one more.
const MAX_ENTRIES_AT_ONCE: u32 = 256;
const ENTRY_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two entries that count the other decisions of a session.
const COUNT_INTERVAL: Duration = Duration::from_mins(1);

/// Minimum time between two writes, in which equal decisions are merged.
const WRITE_INTERVAL: Duration = Duration::from_millis(250);

/// Decisions on their way to the audit log.
#[derive(Debug, Default)]
pub(crate) struct DecisionLog {
    engine: OnceLock<Weak<Engine>>,
    buffer: Mutex<Buffer>,
    /// Held while entries are written, so that [`write`](Self::write) returns only after every
    /// earlier decision is in the log.
    writing: Mutex<()>,
    writers: TaskTracker,
    stopped: CancellationToken,
}

#[derive(Debug, Default)]
struct Buffer {
    sessions: BTreeMap<SessionId, OfSession>,
    /// Rates of the sessions that have caused entries lately.
    rates: BTreeMap<SessionId, EntryRate>,
    /// Whether a writer task runs.
    has_writer: bool,
}

/// Rate limit for the entries of one session.
#[derive(Debug)]
struct EntryRate {
    /// Entries that may be caused now.
    left: u32,
    /// Time up to which `left` was refilled.
    refilled: Instant,
    /// Time of the last entry with counts.
    counted: Option<Instant>,
}

impl EntryRate {
    fn new(now: Instant) -> Self {
        Self {
            left: MAX_ENTRIES_AT_ONCE,
            refilled: now,
            counted: None,
        }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled);
        let more = u32::try_from(passed.as_secs() / ENTRY_INTERVAL.as_secs()).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(more).min(MAX_ENTRIES_AT_ONCE);
        self.refilled = if self.left == MAX_ENTRIES_AT_ONCE {
            now
        } else {
            self.refilled + ENTRY_INTERVAL * more
        };
    }

    /// Takes one entry; returns whether there was one.
    fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }

    fn may_count(&self, now: Instant) -> bool {
        self.counted
            .is_none_or(|last| now.saturating_duration_since(last) >= COUNT_INTERVAL)
    }

    /// Whether it is as new.
    fn is_unused(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.left == MAX_ENTRIES_AT_ONCE && self.may_count(now)
    }
}

/// Whether the counts of a session wait for their interval.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Paced,
    All,
}

/// The buffered decisions of one session, oldest first.
#[derive(Debug, Default)]
struct OfSession {
    entries: Vec<(NetworkDecision, u64)>,
    /// Decisions without an entry of their own.
    more_allowed: u64,
    more_denied: u64,
}

impl Buffer {
    fn add(&mut self, session: &SessionId, decision: NetworkDecision, now: Instant) {
        if !self.rates.contains_key(session) {
            self.rates.insert(session.clone(), EntryRate::new(now));
        }
        if !self.sessions.contains_key(session) {
            self.sessions.insert(session.clone(), OfSession::default());
        }
        if let (Some(of_session), Some(rate)) =
            (self.sessions.get_mut(session), self.rates.get_mut(session))
        {
            of_session.add(decision, rate, now);
        }
    }

    /// Takes what may be written now.
    fn take(&mut self, counts: Counts, now: Instant) -> BTreeMap<SessionId, OfSession> {
        let mut sessions = mem::take(&mut self.sessions);
        for (session, of_session) in &mut sessions {
            let rate = self.rates.get_mut(session);
            if !of_session.has_counts() {
                continue;
            }
            match rate {
                Some(rate) if counts == Counts::Paced && !rate.may_count(now) => {
                    let later = of_session.take_counts();
                    self.sessions.insert(session.clone(), later);
                }
                Some(rate) => rate.counted = Some(now),
                None => {}
            }
        }
        self.rates.retain(|_, rate| !rate.is_unused(now));
        sessions
    }
}

impl OfSession {
    fn add(&mut self, decision: NetworkDecision, rate: &mut EntryRate, now: Instant) {
        if let Some((_, count)) = self
            .entries
            .iter_mut()
            .find(|(known, _)| *known == decision)
        {
            *count += 1;
        } else if self.entries.len() < MAX_BUFFERED && rate.take(now) {
            self.entries.push((decision, 1));
        } else {
            match decision.verdict {
                NetworkVerdict::Allow => self.more_allowed += 1,
                NetworkVerdict::Deny => self.more_denied += 1,
            }
        }
    }

    fn has_counts(&self) -> bool {
        self.more_allowed + self.more_denied > 0
    }

    /// Returns the counts alone, and removes them.
    fn take_counts(&mut self) -> Self {
        Self {
            entries: Vec::new(),
            more_allowed: mem::take(&mut self.more_allowed),
            more_denied: mem::take(&mut self.more_denied),
        }
    }

    /// Returns the entries for the log, and the number of decisions without one of their own.
    fn into_events(self, session: &SessionId) -> (Vec<Event>, u64) {
        let more = [
            (NetworkVerdict::Allow, self.more_allowed),
            (NetworkVerdict::Deny, self.more_denied),
        ];
        let merged = self.entries.iter().map(|(_, count)| count - 1).sum::<u64>()
            + self.more_allowed
            + self.more_denied;
        let entries = self
            .entries
            .into_iter()
            .map(|(decision, count)| event(session, &decision, count));
        let rest = more
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(verdict, count)| {
                Event::of_host(session, name(verdict))
                    .with("reason", "too many decisions at once to record each")
                    .with("count", count)
            });
        (entries.chain(rest).collect(), merged)
    }
}

const fn name(verdict: NetworkVerdict) -> &'static str {
    match verdict {
        NetworkVerdict::Allow => "network_allow",
        NetworkVerdict::Deny => "network_deny",
    }
}

fn event(session: &SessionId, decision: &NetworkDecision, count: u64) -> Event {
    let secrets: Vec<&str> = decision.secrets.iter().map(SecretName::as_str).collect();
    Event::of_host(session, name(decision.verdict))
        .with("host", decision.host.as_deref())
        .with(
            "address",
            decision.address.map(|address| address.to_string()),
        )
        .with("port", decision.port)
        .with("protocol", decision.protocol.as_str())
        .with("reason", decision.reason.as_str())
        .with(
            "secrets",
            Some(secrets).filter(|secrets| !secrets.is_empty()),
        )
        .with("count", Some(count).filter(|count| *count > 1))
}

impl DecisionLog {
    /// Sets the engine, once, after it was created.
    pub(crate) fn belongs_to(&self, engine: &Arc<Engine>) {
        // Fails only if it was set before, to the same engine.
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    /// Returns the sink for the decisions about one session.
    pub(super) fn sink(self: &Arc<Self>, session: &SessionId) -> Arc<dyn DecisionSink> {
        Arc::new(SessionSink {
            log: Arc::clone(self),
            session: session.clone(),
        })
    }

    /// Writes the buffered decisions; blocks the thread. Counts of a session that has more
    /// decisions than it may have entries are written once in [`COUNT_INTERVAL`].
    pub(crate) fn write(&self, engine: &Engine) {
        self.write_with(engine, Counts::Paced);
    }

    /// As [`write`](Self::write), with every count.
    pub(crate) fn write_all(&self, engine: &Engine) {
        self.write_with(engine, Counts::All);
    }

    fn write_with(&self, engine: &Engine, counts: Counts) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = self.lock().take(counts, Instant::now());
        for (session, of_session) in sessions {
            let (events, merged) = of_session.into_events(&session);
            engine.metrics.network_decisions_merged.inc_by(merged);
            for event in events {
                engine.record_event(event);
            }
        }
    }

    /// Joins the writer task and writes the rest; blocks the thread. The caller has closed every
    /// sink.
    pub(crate) fn close(&self, engine: &Engine) {
        self.stopped.cancel();
        self.writers.close();
        tokio::runtime::Handle::current().block_on(self.writers.wait());
        self.write_all(engine);
    }

    fn add(self: &Arc<Self>, session: &SessionId, decision: NetworkDecision) {
        let mut buffer = self.lock();
        buffer.add(session, decision, Instant::now());
        if !buffer.has_writer && !self.stopped.is_cancelled() {
            buffer.has_writer = true;
            self.writers.spawn(Arc::clone(self).keep_writing());
        }
    }

    /// Writes until the buffer is empty.
    async fn keep_writing(self: Arc<Self>) {
        loop {
            let Some(engine) = self.engine.get().and_then(Weak::upgrade) else {
                return;
            };
            let log = Arc::clone(&self);
            let written = blocking(move || {
                log.write(&engine);
                Ok(())
            });
            if let Err(error) = written.await {
                tracing::error!(error = error.chain(), "could not write egress decisions");
            }
            tokio::select! {
                () = self.stopped.cancelled() => return,
                () = tokio::time::sleep(WRITE_INTERVAL) => {}
            }
            let mut buffer = self.lock();
            if buffer.sessions.is_empty() {
                buffer.has_writer = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the decisions about one session from the gateway.
#[derive(Debug)]
struct SessionSink {
    log: Arc<DecisionLog>,
    session: SessionId,
}

impl DecisionSink for SessionSink {
    fn decided(&self, decision: NetworkDecision) {
        if let Some(engine) = self.log.engine.get().and_then(Weak::upgrade) {
            engine.metrics.network_decision(&decision);
        }
        self.log.add(&self.session, decision);
    }
}

#[cfg(test)]
mod tests {
    use sandbar_core::NetworkProtocol;
    use serde_json::{Value, json};

    use super::*;

    fn decision(verdict: NetworkVerdict, host: &str) -> NetworkDecision {
        NetworkDecision {
            verdict,
            protocol: NetworkProtocol::Tls,
            host: Some(host.into()),
            address: None,
            port: 443,
            reason: "allow_list: example.com".into(),
            secrets: Vec::new(),
        }
    }

    #[test]
    fn lasting_flood_of_decisions_causes_few_entries() {
        let (mut buffer, session) = (Buffer::default(), "s".parse().unwrap());
        let begun = Instant::now();
        let (mut entries, mut counted) = (0, 0);
        let mut write = |buffer: &mut Buffer, counts, now| {
            for (session, of_session) in buffer.take(counts, now) {
                let (events, _) = of_session.into_events(&session);
                entries += events.len() as u64;
                let count = |event: &Event| event.detail.get("count").and_then(Value::as_u64);
                counted += events
                    .iter()
                    .map(|event| count(event).unwrap_or(1))
                    .sum::<u64>();
            }
        };
        // An hour, in steps of the writer.
        let steps = 3600 * 4;
        for step in 0..steps {
            let now = begun + WRITE_INTERVAL * step;
            for number in 0..10 {
                let host = format!("x{step}-{number}.example");
                buffer.add(&session, decision(NetworkVerdict::Deny, &host), now);
            }
            write(&mut buffer, Counts::Paced, now);
        }
        write(&mut buffer, Counts::All, begun + WRITE_INTERVAL * steps);
        assert_eq!(counted, u64::from(steps) * 10);
        assert!(entries <= 256 + 3600 + 62, "{entries}");
        // A session that causes none is forgotten.
        buffer.take(Counts::Paced, begun + Duration::from_hours(2));
        assert!(buffer.rates.is_empty() && buffer.sessions.is_empty());
    }

    #[test]
    fn equal_decisions_are_merged_and_a_flood_is_counted() {
        let now = Instant::now();
        let (mut of_session, mut rate) = (OfSession::default(), EntryRate::new(now));
        for _ in 0..3 {
            let allowed = decision(NetworkVerdict::Allow, "example.com");
            of_session.add(allowed, &mut rate, now);
        }
        for number in 0..1000 {
            let denied = decision(NetworkVerdict::Deny, &format!("x{number}.example"));
            of_session.add(denied, &mut rate, now);
        }
        let session: SessionId = "s".parse().unwrap();
        let (events, merged) = of_session.into_events(&session);
        assert_eq!(events.len(), MAX_BUFFERED + 1);
        assert_eq!(merged, 2 + 1000 - (MAX_BUFFERED as u64 - 1));
        assert_eq!(
            (events[0].what, events[0].detail["count"].clone()),
            ("network_allow", json!(3))
        );
        assert_eq!(events[0].detail["host"], "example.com");
        assert_eq!(events[1].detail.get("count"), Some(&Value::Null));
        let last = events.last().unwrap();
        assert_eq!(
            (last.what, &last.detail["count"]),
            ("network_deny", &json!(1000 - (MAX_BUFFERED - 1)))
        );
    }
}
