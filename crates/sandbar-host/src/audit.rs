//! The audit log of a session: what is written into it, and how it is read.

use std::cell::RefCell;

use sandbar_core::{Actor, AuditEntry, AuditQuery, AuditVerdict, Error, Page, Result, SessionId};
use serde_json::{Map, Value};

use crate::{
    Host,
    actor::current_actor,
    events::{Happening, News},
    gate::not_found,
    host::Inner,
    verb::{Call, Verb},
};

/// Longest text and longest list of a detail. The log says what was done; it is no copy of it.
const LONGEST_TEXT: usize = 500;
const LONGEST_LIST: usize = 50;

impl Host {
    /// What happened to a session. The log of one that was destroyed can be read as long as it is kept.
    pub async fn audit(&self, id: &SessionId, query: AuditQuery) -> Result<Page<AuditEntry>> {
        let target = id.clone();
        self.run(Call::on(id, Verb::Audit), move |inner| {
            inner.decisions.write(inner);
            let page = inner.state.audit_page(&target, &query)?;
            if page.items.is_empty() {
                inner.require_log(&target)?;
            }
            Ok(page)
        })
        .await
    }

    /// Whether the log of a session is as it was written.
    pub async fn verify_audit(&self, id: &SessionId) -> Result<AuditVerdict> {
        let target = id.clone();
        self.run(Call::on(id, Verb::VerifyAudit), move |inner| {
            inner.decisions.write(inner);
            let verdict = inner.state.verify_audit(&target)?;
            if matches!(verdict, AuditVerdict::Intact { entries: 0, .. }) {
                inner.require_log(&target)?;
            }
            Ok(verdict)
        })
        .await
    }
}

/// Something for the log of a session.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) session: SessionId,
    pub(crate) who: Actor,
    pub(crate) what: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) detail: Map<String, Value>,
    /// What those who watch events are told about it.
    pub(crate) told: Option<Happening>,
}

impl Event {
    /// Something that was done, by whoever acts now.
    pub(crate) fn new(session: &SessionId, what: &'static str) -> Self {
        let session = session.clone();
        Self { session, who: current_actor(), what, outcome: AuditEntry::OK, detail: Map::new(), told: None }
    }

    /// A verb that was done, by whoever acts now.
    pub(crate) fn of_verb(session: &SessionId, verb: Verb) -> Self {
        Self { told: verb.happening(), ..Self::new(session, verb.as_str()) }
    }

    /// Something the host did, whoever made it necessary.
    pub(crate) fn of_host(session: &SessionId, what: &'static str) -> Self {
        Self { who: Actor::host(), ..Self::new(session, what) }
    }

    pub(crate) fn outcome(mut self, outcome: &'static str) -> Self {
        self.outcome = outcome;
        self
    }

    /// Tells it also to those who watch events.
    pub(crate) fn told(mut self, happening: impl Into<Happening>) -> Self {
        self.told = Some(happening.into());
        self
    }

    /// Adds a detail. Never a secret: no environment, no file content.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(key.to_owned(), value.into());
        self
    }
}

impl Inner {
    /// Writes something into the log of a session, and tells it to those who watch. What was done is done: a log that cannot be written is reported, and
    /// changes nothing of that.
    pub(crate) fn record_event(&self, mut event: Event) {
        event.detail.retain(|_, value| !value.is_null());
        event.detail.values_mut().for_each(shorten);
        if let Err(error) = self.state.append_audit(&event) {
            let error = Error::internal("could not write the audit log").with_source(error);
            tracing::error!(session = %event.session, what = event.what, error = error.chain(), "something is missing in the audit log");
            self.metrics.audit_failures.inc();
            self.incidents.note(&Call::on(&event.session, Verb::Audit), &error);
        }
        // What was refused has changed nothing.
        if let Some(happening) = event.told.filter(|_| matches!(event.outcome, AuditEntry::OK | AuditEntry::FAILED)) {
            let Event { session, who: actor, outcome, detail, .. } = event;
            self.tell_event(News { session, actor, happening, outcome, detail });
        }
    }

    /// `SessionNotFound`, unless there is such a session. For one whose log is empty.
    fn require_log(&self, id: &SessionId) -> Result<(), Error> {
        if self.state.session(id)?.is_some() || self.state.has_audit(id)? { Ok(()) } else { Err(not_found(id)) }
    }
}

/// Keeps an entry small, whatever callers send.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(items) => {
            let more = items.len().saturating_sub(LONGEST_LIST);
            items.truncate(LONGEST_LIST);
            items.iter_mut().for_each(shorten);
            if more > 0 {
                items.push(format!("… and {more} more").into());
            }
        }
        Value::Object(map) => map.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

thread_local! {
    /// Details the verb that runs on this thread has found out about itself.
    static NOTES: RefCell<Map<String, Value>> = RefCell::default();
}

/// Adds a detail to the log entry of the verb that runs on this thread.
pub(crate) fn note(key: &str, value: impl Into<Value>) {
    NOTES.with_borrow_mut(|notes| notes.insert(key.to_owned(), value.into()));
}

/// Runs a verb, and returns what it noted.
pub(crate) fn with_notes<T>(work: impl FnOnce() -> T) -> (T, Map<String, Value>) {
    // A verb that panicked on this thread may have left some.
    NOTES.take();
    (work(), NOTES.take())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_small_whatever_callers_send() {
        let mut detail = json!({"argv": vec!["ä".repeat(2000); 60], "nested": {"text": "x".repeat(501)}, "n": 7});
        shorten(&mut detail);
        assert_eq!(detail["argv"][0].as_str().unwrap().chars().count(), 501);
        assert_eq!(detail["argv"][50], "… and 10 more");
        assert_eq!(detail["nested"]["text"].as_str().unwrap().chars().count(), 501);
        assert_eq!(detail["n"], 7);
    }
}
