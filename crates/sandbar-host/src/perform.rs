//! Doing what is asked, and leaving traces of it: a span, metrics, incidents and the audit log.

use std::{sync::Arc, time::Instant};

use sandbar_core::{AuditEntry, Result};

use crate::{
    audit::{Event, with_notes},
    host::Inner,
    verb::Call,
};

impl Inner {
    /// Runs a verb on this thread. Its entry in the audit log is written before anybody is told the outcome.
    pub(crate) fn perform<T>(self: &Arc<Self>, call: Call, work: impl FnOnce(&Arc<Self>) -> Result<T>) -> Result<T> {
        let session = call.session.as_ref().map(tracing::field::display);
        let _span = tracing::debug_span!("verb", verb = call.verb.as_str(), session).entered();
        let begun = Instant::now();
        let (outcome, notes) = with_notes(|| work(self));
        let name = outcome_name(&outcome);
        self.metrics.operation(call.verb, name, begun.elapsed());
        if let Err(error) = &outcome {
            self.incidents.note(&call, error);
        }
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
