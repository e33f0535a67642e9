//! What a tool call leaves in the audit log and the metrics.

use std::{sync::Arc, time::Instant};

use sandbar_core::{AuditEntry, Error, SessionId, ToolRequest, ToolResponse};
use serde_json::Value;
use tracing::Span;

use crate::{
    audit::Event,
    host::{Inner, blocking},
    perform::record_outcome,
    verb::{Call, Verb},
};

/// Parameters that say what a call was about. Content is never among them.
const TOLD: [&str; 3] = ["path", "cwd", "cmd"];

/// What is known of a call before it is done.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    inner: Arc<Inner>,
    tool: String,
    event: Event,
    begun: Instant,
    /// Ends with the last clone.
    span: Span,
}

impl Trace {
    pub(super) fn begin(inner: &Arc<Inner>, session: &SessionId, request: &ToolRequest) -> Self {
        let event = Event::of_verb(session, Verb::ExecuteTool)
            .with("tool", request.tool.as_str())
            .with("call", request.call.as_str());
        let told = TOLD.iter().filter_map(|key| Some((*key, request.params.get(*key)?.as_str()?)));
        let event = told.fold(event, |event, (key, value)| event.with(key, value));
        let span = Call::on(session, Verb::ExecuteTool).with("tool", request.tool.as_str()).span();
        Self { inner: Arc::clone(inner), tool: request.tool.clone(), event, begun: Instant::now(), span }
    }

    /// It was done, and this is the answer.
    pub(super) fn answered(self, response: &ToolResponse) {
        let outcome = if response.is_error { AuditEntry::FAILED } else { AuditEntry::OK };
        self.inner.metrics.tool_call(&self.tool, outcome, response.duration);
        let snapshot = response.snapshot_id.as_ref().map(|name| Value::from(name.as_str()));
        record_outcome(&self.span, outcome, snapshot.as_ref());
        let milliseconds = u64::try_from(response.duration.as_millis()).unwrap_or(u64::MAX);
        let event = self.event.outcome(outcome).with("duration_ms", milliseconds).with("exit_code", response.exit_code);
        self.inner.record_event(event.with("snapshot", snapshot));
    }

    /// There is no answer.
    pub(super) async fn failed(self, error: &Error) {
        let Self { inner, tool, event, begun, span } = self;
        let outcome = error.code().as_str();
        record_outcome(&span, outcome, None);
        inner.metrics.tool_call(&tool, outcome, begun.elapsed());
        inner.incidents.note(&Call::on(&event.session, Verb::ExecuteTool), error);
        // As with other calls: none to sessions that do not exist.
        if inner.has_session(&event.session) {
            let recorded = blocking(move || {
                inner.record_event(event.outcome(outcome));
                Ok(())
            });
            if let Err(error) = recorded.await {
                tracing::error!(error = error.chain(), "could not record a tool call");
            }
        }
    }
}
