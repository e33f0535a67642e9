//! Doing what is asked, and leaving traces of it: a span, metrics, incidents and the audit log.

use std::{sync::Arc, time::Instant};

use sandbar_core::{AuditEntry, Result};
use serde_json::Value;
use tracing::Span;

use crate::{
    audit::{Event, with_notes},
    host::Inner,
    verb::Call,
};

impl Inner {
    /// Runs a verb on this thread. Its entry in the audit log is written before anybody is told the outcome.
    pub(crate) fn perform<T>(self: &Arc<Self>, call: Call, work: impl FnOnce(&Arc<Self>) -> Result<T>) -> Result<T> {
        let span = call.span().entered();
        let begun = Instant::now();
        let (outcome, notes) = with_notes(|| work(self));
        let name = outcome_name(&outcome);
        self.metrics.operation(call.verb, name, begun.elapsed());
        if let Err(error) = &outcome {
            self.incidents.note(&call, error);
        }
        record_outcome(&span, name, call.detail.get("snapshot").or_else(|| notes.get("snapshot")));
        let Call { verb, session, mut detail } = call;
        if let Some(session) = session.filter(|_| verb.is_audited())
            // Asking for sessions that do not exist leaves no trace, or anybody could fill the disk.
            && (outcome.is_ok() || self.has_session(&session))
        {
            detail.extend(notes);
            self.record_event(Event { detail, ..Event::of_verb(&session, verb).outcome(name) });
        }
        outcome
    }
}

/// An outcome in one word, for the audit log and the metrics.
fn outcome_name<T>(outcome: &Result<T>) -> &'static str {
    match outcome {
        Ok(_) => AuditEntry::OK,
        Err(error) => error.code().as_str(),
    }
}

/// Completes the span of a verb: how it ended, and the snapshot that it took or used. A turn is named by its snapshot.
pub(crate) fn record_outcome(span: &Span, outcome: &'static str, snapshot: Option<&Value>) {
    span.record("outcome", outcome);
    if let Some(snapshot) = snapshot.and_then(Value::as_str) {
        span.record("snapshot", snapshot);
    }
    if outcome != AuditEntry::OK {
        span.record("otel.status_code", "ERROR");
    }
}
