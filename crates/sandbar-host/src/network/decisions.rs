//! [`DecisionLog`]: buffers egress decisions on their way to the audit log.
//!
//! The gateway must not wait for a disk, and a session must not be able to fill one. Equal
//! decisions become one entry with a count, and decisions of a session beyond [`MAX_BUFFERED`] are
//! only counted.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use sandbar_core::{NetworkDecision, NetworkVerdict, SecretName, SessionId};
use sandbar_egress::DecisionSink;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{audit::Event, blocking::blocking, engine::Engine};

/// Different decisions of one session that are buffered.
const MAX_BUFFERED: usize = 64;

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
    /// Whether a writer task runs.
    has_writer: bool,
}

/// The buffered decisions of one session, oldest first.
#[derive(Debug, Default)]
struct OfSession {
    entries: Vec<(NetworkDecision, u64)>,
    /// Decisions beyond [`MAX_BUFFERED`].
    more_allowed: u64,
    more_denied: u64,
}

impl OfSession {
    fn add(&mut self, decision: NetworkDecision) {
        if let Some((_, count)) = self
            .entries
            .iter_mut()
            .find(|(known, _)| *known == decision)
        {
            *count += 1;
        } else if self.entries.len() < MAX_BUFFERED {
            self.entries.push((decision, 1));
        } else {
            match decision.verdict {
                NetworkVerdict::Allow => self.more_allowed += 1,
                NetworkVerdict::Deny => self.more_denied += 1,
            }
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

    /// Writes the buffered decisions; blocks the thread.
    pub(crate) fn write(&self, engine: &Engine) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = mem::take(&mut self.lock().sessions);
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
        self.write(engine);
    }

    fn add(self: &Arc<Self>, session: &SessionId, decision: NetworkDecision) {
        let mut buffer = self.lock();
        if !buffer.sessions.contains_key(session) {
            buffer
                .sessions
                .insert(session.clone(), OfSession::default());
        }
        if let Some(of_session) = buffer.sessions.get_mut(session) {
            of_session.add(decision);
        }
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
    fn equal_decisions_are_merged_and_a_flood_is_counted() {
        let mut of_session = OfSession::default();
        for _ in 0..3 {
            of_session.add(decision(NetworkVerdict::Allow, "example.com"));
        }
        for number in 0..1000 {
            of_session.add(decision(
                NetworkVerdict::Deny,
                &format!("x{number}.example"),
            ));
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
