//! Running a verb, with its span, metrics, incidents and audit log entry.

use std::{sync::Arc, time::Instant};

use sandbar_core::{AuditEntry, Result};
use serde_json::Value;
use tracing::Span;

use crate::{
    audit::{Event, with_notes},
    engine::Engine,
    verb::Call,
};

impl Engine {
    /// Runs a verb on this thread. Writes its audit log entry before it returns the outcome.
    pub(crate) fn perform<T>(
        self: &Arc<Self>,
        call: Call,
        work: impl FnOnce(&Arc<Self>) -> Result<T>,
    ) -> Result<T> {
        let span = call.span().entered();
        let begun = Instant::now();
        let (outcome, notes) = with_notes(|| work(self));
        let name = outcome_name(&outcome);
        self.metrics.operation(call.verb, name, begun.elapsed());
        if let Err(error) = &outcome {
            self.incidents.note(&call, error);
        }
        record_outcome(
            &span,
            name,
            call.detail
                .get("snapshot")
                .or_else(|| notes.get("snapshot")),
        );
        let Call {
            verb,
            session,
            mut detail,
        } = call;
        if let Some(session) = session.filter(|_| verb.is_audited())
            // No entries for sessions that do not exist, or callers could fill the disk with them.
            && (outcome.is_ok() || self.has_session(&session))
        {
            detail.extend(notes);
            self.record_event(Event {
                detail,
                ..Event::of_verb(&session, verb).outcome(name)
            });
        }
        outcome
    }
}

/// Returns an outcome as one word, for audit log and metrics.
fn outcome_name<T>(outcome: &Result<T>) -> &'static str {
    match outcome {
        Ok(_) => AuditEntry::OK,
        Err(error) => error.code().as_str(),
    }
}

/// Completes the span of a verb with its outcome and the snapshot that it took or used.
pub(crate) fn record_outcome(span: &Span, outcome: &'static str, snapshot: Option<&Value>) {
    span.record("outcome", outcome);
    if let Some(snapshot) = snapshot.and_then(Value::as_str) {
        span.record("snapshot", snapshot);
    }
    if outcome != AuditEntry::OK {
        span.record("otel.status_code", "ERROR");
    }
}
