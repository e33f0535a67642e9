//! The way of decisions into the audit log.
//!
//! The gateway must not wait for a disk, and a session must not be able to fill one: decisions wait here for a moment, equal
//! ones become one entry with a count, and what a session brings beyond [`MOST`] at a time is told as a number.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use sandbar_core::{NetworkDecision, NetworkVerdict, SecretName, SessionId};
use sandbar_net::DecisionSink;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    audit::Event,
    host::{Inner, blocking},
};

/// Different decisions of one session that wait at a time.
const MOST: usize = 64;

/// After entries were written, the next wait at least so long: that is what becomes one entry.
const BREATH: Duration = Duration::from_millis(250);

/// Decisions on their way into the audit log.
#[derive(Debug, Default)]
pub(crate) struct DecisionLog {
    host: OnceLock<Weak<Inner>>,
    waiting: Mutex<Waiting>,
    /// Held while entries are written, so that whoever wants all written waits for those that are on their way.
    writing: Mutex<()>,
    writers: TaskTracker,
    stopped: CancellationToken,
}

#[derive(Debug, Default)]
struct Waiting {
    sessions: BTreeMap<SessionId, OfSession>,
    /// Somebody writes, or will in a moment.
    has_writer: bool,
}

/// What waits of one session, in the order it came.
#[derive(Debug, Default)]
struct OfSession {
    entries: Vec<(NetworkDecision, u64)>,
    /// What came beyond that.
    more_allowed: u64,
    more_denied: u64,
}

impl OfSession {
    fn add(&mut self, decision: NetworkDecision) {
        if let Some((_, count)) = self.entries.iter_mut().find(|(known, _)| *known == decision) {
            *count += 1;
        } else if self.entries.len() < MOST {
            self.entries.push((decision, 1));
        } else {
            match decision.verdict {
                NetworkVerdict::Allow => self.more_allowed += 1,
                NetworkVerdict::Deny => self.more_denied += 1,
            }
        }
    }

    /// Entries of the log, and how many decisions have none of their own.
    fn into_events(self, session: &SessionId) -> (Vec<Event>, u64) {
        let more = [(NetworkVerdict::Allow, self.more_allowed), (NetworkVerdict::Deny, self.more_denied)];
        let merged =
            self.entries.iter().map(|(_, count)| count - 1).sum::<u64>() + self.more_allowed + self.more_denied;
        let told = self.entries.into_iter().map(|(decision, count)| event(session, &decision, count));
        let rest = more.into_iter().filter(|(_, count)| *count > 0).map(|(verdict, count)| {
            Event::of_host(session, name(verdict)).with("reason", "too many at once to tell each").with("count", count)
        });
        (told.chain(rest).collect(), merged)
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
        .with("address", decision.address.map(|address| address.to_string()))
        .with("port", decision.port)
        .with("protocol", decision.protocol.as_str())
        .with("reason", decision.reason.as_str())
        .with("secrets", Some(secrets).filter(|secrets| !secrets.is_empty()))
        .with("count", Some(count).filter(|count| *count > 1))
}

impl DecisionLog {
    /// Whose log it is; said once, when the host exists.
    pub(crate) fn belongs_to(&self, host: &Arc<Inner>) {
        // It was said before, and nothing else can have been said.
        let _ = self.host.set(Arc::downgrade(host));
    }

    /// What the gateway tells of one session.
    pub(super) fn sink(self: &Arc<Self>, session: &SessionId) -> Arc<dyn DecisionSink> {
        Arc::new(SessionSink { log: Arc::clone(self), session: session.clone() })
    }

    /// Writes whatever waits. On a thread that may block.
    pub(crate) fn write(&self, inner: &Inner) {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = mem::take(&mut self.lock().sessions);
        for (session, of_session) in sessions {
            let (events, merged) = of_session.into_events(&session);
            inner.metrics.network_decisions_merged.inc_by(merged);
            for event in events {
                inner.record_event(event);
            }
        }
    }

    /// Writes whatever waits, once nothing new can come. On a thread that may block.
    pub(crate) fn close(&self, inner: &Inner) {
        self.stopped.cancel();
        self.writers.close();
        tokio::runtime::Handle::current().block_on(self.writers.wait());
        self.write(inner);
    }

    fn add(self: &Arc<Self>, session: &SessionId, decision: NetworkDecision) {
        let mut waiting = self.lock();
        if !waiting.sessions.contains_key(session) {
            waiting.sessions.insert(session.clone(), OfSession::default());
        }
        if let Some(of_session) = waiting.sessions.get_mut(session) {
            of_session.add(decision);
        }
        if !waiting.has_writer && !self.stopped.is_cancelled() {
            waiting.has_writer = true;
            self.writers.spawn(Arc::clone(self).keep_writing());
        }
    }

    /// Writes until nothing waits any more.
    async fn keep_writing(self: Arc<Self>) {
        loop {
            let Some(inner) = self.host.get().and_then(Weak::upgrade) else { return };
            let log = Arc::clone(&self);
            let written = blocking(move || {
                log.write(&inner);
                Ok(())
            });
            if let Err(error) = written.await {
                tracing::error!(error = error.chain(), "could not write decisions about the network");
            }
            tokio::select! {
                () = self.stopped.cancelled() => return,
                () = tokio::time::sleep(BREATH) => {}
            }
            let mut waiting = self.lock();
            if waiting.sessions.is_empty() {
                waiting.has_writer = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears of the decisions about one session.
#[derive(Debug)]
struct SessionSink {
    log: Arc<DecisionLog>,
    session: SessionId,
}

impl DecisionSink for SessionSink {
    fn decided(&self, decision: NetworkDecision) {
        if let Some(host) = self.log.host.get().and_then(Weak::upgrade) {
            host.metrics.network_decision(&decision);
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
    fn equal_decisions_are_one_entry_and_a_flood_is_a_number() {
        let mut of_session = OfSession::default();
        for _ in 0..3 {
            of_session.add(decision(NetworkVerdict::Allow, "example.com"));
        }
        for number in 0..1000 {
            of_session.add(decision(NetworkVerdict::Deny, &format!("x{number}.example")));
        }
        let session: SessionId = "s".parse().unwrap();
        let (events, merged) = of_session.into_events(&session);
        assert_eq!(events.len(), MOST + 1);
        assert_eq!(merged, 2 + 1000 - (MOST as u64 - 1));
        assert_eq!((events[0].what, events[0].detail["count"].clone()), ("network_allow", json!(3)));
        assert_eq!(events[0].detail["host"], "example.com");
        assert_eq!(events[1].detail.get("count"), Some(&Value::Null));
        let last = events.last().unwrap();
        assert_eq!((last.what, &last.detail["count"]), ("network_deny", &json!(1000 - (MOST - 1))));
    }
}
