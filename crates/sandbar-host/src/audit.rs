//! The audit log of a session: its events, and reading it.

use std::cell::RefCell;

use sandbar_core::{
    Actor, AuditEntry, AuditQuery, AuditVerdict, Error, Page, Result, SessionId, SnapshotName,
};
use serde_json::{Map, Value};

use crate::{
    Host,
    actor::current_actor,
    admission::not_found,
    audit_budget::Summaries,
    engine::Engine,
    events::{Happening, News},
    verb::{Call, Verb},
};

/// Limits for texts and lists in the details of an entry, which callers choose.
const MAX_TEXT_CHARS: usize = 500;
const MAX_LIST_ITEMS: usize = 50;

/// Limits the details of an entry as they are stored. Longer ones are cut further.
const MAX_DETAIL_BYTES: usize = 1800;

impl Host {
    /// Reads the audit log of a session. That of a destroyed session can be read until its
    /// retention ends.
    pub async fn audit(&self, id: &SessionId, query: AuditQuery) -> Result<Page<AuditEntry>> {
        let target = id.clone();
        self.run(Call::on(id, Verb::Audit), move |engine| {
            engine.decisions.write(engine);
            let page = engine.state.audit_page(&target, &query)?;
            if page.items.is_empty() {
                engine.require_log(&target)?;
            }
            Ok(page)
        })
        .await
    }

    /// Verifies the hash chain over the audit log of a session.
    pub async fn verify_audit(&self, id: &SessionId) -> Result<AuditVerdict> {
        let target = id.clone();
        self.run(Call::on(id, Verb::VerifyAudit), move |engine| {
            engine.decisions.write(engine);
            let verdict = engine.state.verify_audit(&target)?;
            if matches!(verdict, AuditVerdict::Intact { entries: 0, .. }) {
                engine.require_log(&target)?;
            }
            Ok(verdict)
        })
        .await
    }
}

/// An entry for the audit log of a session.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) session: SessionId,
    pub(crate) who: Actor,
    pub(crate) what: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) detail: Map<String, Value>,
    /// The event for watchers, if it has one.
    pub(crate) happening: Option<Happening>,
}

impl Event {
    /// An event of the current actor.
    pub(crate) fn new(session: &SessionId, what: &'static str) -> Self {
        let session = session.clone();
        Self {
            session,
            who: current_actor(),
            what,
            outcome: AuditEntry::OK,
            detail: Map::new(),
            happening: None,
        }
    }

    /// A verb of the current actor.
    pub(crate) fn of_verb(session: &SessionId, verb: Verb) -> Self {
        Self {
            happening: verb.happening(),
            ..Self::new(session, verb.as_str())
        }
    }

    /// An event of the host itself.
    pub(crate) fn of_host(session: &SessionId, what: &'static str) -> Self {
        Self {
            who: Actor::host(),
            ..Self::new(session, what)
        }
    }

    pub(crate) fn outcome(mut self, outcome: &'static str) -> Self {
        self.outcome = outcome;
        self
    }

    /// Sends it to watchers as well.
    pub(crate) fn for_watchers(mut self, happening: impl Into<Happening>) -> Self {
        self.happening = Some(happening.into());
        self
    }

    /// Adds a detail. Never a secret: no environment, no file content.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(key.to_owned(), value.into());
        self
    }
}

impl Engine {
    /// Writes an event to the audit log of a session and sends it to watchers. The operation is
    /// done, so a failed write is logged and counted but fails no verb.
    pub(crate) fn record_event(&self, mut event: Event) {
        event.detail.retain(|_, value| !value.is_null());
        bound(&mut event.detail);
        if let Err(error) = self.write_audit(&event) {
            let error = Error::internal("could not write the audit log").with_source(error);
            tracing::error!(session = %event.session, what = event.what, error = error.chain(), "an entry is missing from the audit log");
            self.metrics.audit_failures.inc();
            self.incidents
                .note(&Call::on(&event.session, Verb::Audit), &error);
        }
        // A refused verb has changed nothing.
        if let Some(happening) = event
            .happening
            .filter(|_| matches!(event.outcome, AuditEntry::OK | AuditEntry::FAILED))
        {
            let Event {
                session,
                who: actor,
                outcome,
                detail,
                ..
            } = event;
            self.send_event(News {
                session,
                actor,
                happening,
                outcome,
                detail,
            });
        }
    }

    /// Writes an entry, within the budget of its session.
    fn write_audit(&self, event: &Event) -> Result<()> {
        let limit = self.config.max_audit_size;
        let (summary, is_written) = self.audit_budget.admit(&self.state, limit, event)?;
        for event in summary.iter().chain(is_written.then_some(event)) {
            let bytes = self.state.append_audit(event)?;
            self.audit_budget.count(&event.session, bytes);
        }
        if event.what == Verb::DestroySession.as_str() && event.outcome == AuditEntry::OK {
            self.audit_budget.forget(&event.session);
        }
        Ok(())
    }

    /// Writes the counts of entries that were left out.
    pub(crate) fn write_audit_summaries(&self, which: Summaries) {
        for summary in self.audit_budget.summaries(which) {
            match self.state.append_audit(&summary) {
                Ok(bytes) => self.audit_budget.count(&summary.session, bytes),
                Err(error) => {
                    tracing::error!(session = %summary.session, error = error.chain(), "could not write the audit log");
                    self.metrics.audit_failures.inc();
                }
            }
        }
    }

    /// Records a decision of recovery about a session.
    pub(crate) fn record_recovery(
        &self,
        session: &SessionId,
        decision: &'static str,
        snapshot: Option<&SnapshotName>,
    ) {
        let event = Event::of_host(session, "recover").with("decision", decision);
        self.record_event(event.with("snapshot", snapshot.map(SnapshotName::as_str)));
    }

    /// Refuses a session that neither exists nor has an audit log.
    fn require_log(&self, id: &SessionId) -> Result<(), Error> {
        if self.state.session(id)?.is_some() || self.state.has_audit(id)? {
            Ok(())
        } else {
            Err(not_found(id))
        }
    }
}

/// Bounds the size of an entry. What is cut ends with `…`.
fn bound(detail: &mut Map<String, Value>) {
    let (mut chars, mut items) = (MAX_TEXT_CHARS, MAX_LIST_ITEMS);
    while items > 0 {
        detail
            .values_mut()
            .for_each(|value| shorten(value, chars, items));
        if stored_size(detail) <= MAX_DETAIL_BYTES {
            return;
        }
        (chars, items) = (chars / 2, items / 2);
    }
    // Too many keys; no verb has as many.
    detail.clear();
    detail.insert("cut".to_owned(), "…".into());
}

fn stored_size(detail: &Map<String, Value>) -> usize {
    serde_json::to_string(detail).map_or(0, |text| text.len())
}

/// Cuts texts and lists.
fn shorten(value: &mut Value, chars: usize, max_items: usize) {
    match value {
        Value::String(text) => {
            if text.ends_with('…') && text.chars().count() == chars + 1 {
                return;
            }
            if let Some((end, _)) = text.char_indices().nth(chars) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(items) => {
            // Left out in an earlier pass.
            let earlier = items.last().and_then(left_out);
            if earlier.is_some() {
                items.pop();
            }
            let more = items.len().saturating_sub(max_items) + earlier.unwrap_or(0);
            items.truncate(max_items);
            for item in items.iter_mut() {
                shorten(item, chars, max_items);
            }
            if more > 0 {
                items.push(format!("… and {more} more").into());
            }
        }
        Value::Object(map) => map
            .values_mut()
            .for_each(|value| shorten(value, chars, max_items)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the number in the mark of a list that was cut.
fn left_out(item: &Value) -> Option<usize> {
    let number = item.as_str()?.strip_prefix("… and ")?;
    number.strip_suffix(" more")?.parse().ok()
}

thread_local! {
    /// Details added by the verb that runs on this thread.
    static NOTES: RefCell<Map<String, Value>> = RefCell::default();
}

/// Adds a detail to the log entry of the verb that runs on this thread.
pub(crate) fn note(key: &str, value: impl Into<Value>) {
    NOTES.with_borrow_mut(|notes| notes.insert(key.to_owned(), value.into()));
}

/// Runs a verb; returns its result and the details it added.
pub(crate) fn with_notes<T>(work: impl FnOnce() -> T) -> (T, Map<String, Value>) {
    // A verb that panicked on this thread may have left details.
    NOTES.take();
    (work(), NOTES.take())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_details_are_shortened() {
        let mut detail = json!({"argv": vec!["ä".repeat(2000); 60], "nested": {"text": "x".repeat(501)}, "n": 7});
        shorten(&mut detail, MAX_TEXT_CHARS, MAX_LIST_ITEMS);
        assert_eq!(detail["argv"][0].as_str().unwrap().chars().count(), 501);
        assert_eq!(detail["argv"][50], "… and 10 more");
        assert_eq!(
            detail["nested"]["text"].as_str().unwrap().chars().count(),
            501
        );
        assert_eq!(detail["n"], 7);
    }

    #[test]
    fn details_of_any_call_fit_into_two_kilobytes() {
        let mut detail = Map::from_iter([
            ("argv".to_owned(), json!(vec!["ä\n".repeat(2000); 1000])),
            ("path".to_owned(), json!("/x".repeat(5000))),
            ("n".to_owned(), json!(7)),
        ]);
        bound(&mut detail);
        assert!(stored_size(&detail) <= MAX_DETAIL_BYTES);
        let argv = detail["argv"].as_array().unwrap();
        let (shown, more) = (argv.len() - 1, left_out(argv.last().unwrap()).unwrap());
        assert_eq!(shown + more, 1000);
        assert!(shown > 0 && argv[0].as_str().unwrap().ends_with('…'));
        assert!(detail["path"].as_str().unwrap().ends_with('…'));
        assert_eq!(detail["n"], 7);
        let many = (0..1000).map(|number| (number.to_string(), json!("x")));
        let mut many: Map<String, Value> = many.collect();
        bound(&mut many);
        assert_eq!(json!(many), json!({"cut": "…"}));
    }
}
