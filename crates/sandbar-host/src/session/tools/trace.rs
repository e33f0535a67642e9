//! [`Trace`]: the entries of a tool call in audit log, metrics and spans.

use std::{sync::Arc, time::Instant};

use sandbar_core::{AuditEntry, Error, SessionId, ToolRequest, ToolResponse};
use serde_json::Value;
use tracing::Span;

use crate::{
    audit::Event,
    blocking::blocking,
    engine::Engine,
    perform::record_outcome,
    verb::{Call, Verb},
};

/// Parameters that are copied to the audit log. Never content.
const AUDITED_PARAMS: [&str; 3] = ["path", "cwd", "cmd"];

/// A tool call that is to be recorded.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    engine: Arc<Engine>,
    tool: String,
    event: Event,
    begun: Instant,
    /// Closed with the last clone.
    span: Span,
}

impl Trace {
    pub(super) fn begin(engine: &Arc<Engine>, session: &SessionId, request: &ToolRequest) -> Self {
        let event = Event::of_verb(session, Verb::ExecuteTool)
            .with("tool", request.tool.as_str())
            .with("call", request.call.as_str());
        let params = AUDITED_PARAMS
            .iter()
            .filter_map(|key| Some((*key, request.params.get(*key)?.as_str()?)));
        let event = params.fold(event, |event, (key, value)| event.with(key, value));
        let span = Call::on(session, Verb::ExecuteTool)
            .with("tool", request.tool.as_str())
            .span();
        Self {
            engine: Arc::clone(engine),
            tool: request.tool.clone(),
            event,
            begun: Instant::now(),
            span,
        }
    }

    /// Records the response of the tool.
    pub(super) fn answered(self, response: &ToolResponse) {
        let outcome = if response.is_error {
            AuditEntry::FAILED
        } else {
            AuditEntry::OK
        };
        self.engine
            .metrics
            .tool_call(&self.tool, outcome, response.duration);
        let snapshot = response
            .snapshot_id
            .as_ref()
            .map(|name| Value::from(name.as_str()));
        record_outcome(&self.span, outcome, snapshot.as_ref());
        let milliseconds = u64::try_from(response.duration.as_millis()).unwrap_or(u64::MAX);
        let event = self
            .event
            .outcome(outcome)
            .with("duration_ms", milliseconds)
            .with("exit_code", response.exit_code);
        self.engine.record_event(event.with("snapshot", snapshot));
    }

    /// Records a call that ended without a response.
    pub(super) async fn failed(self, error: &Error) {
        let Self {
            engine,
            tool,
            event,
            begun,
            span,
        } = self;
        let outcome = error.code().as_str();
        record_outcome(&span, outcome, None);
        engine.metrics.tool_call(&tool, outcome, begun.elapsed());
        engine
            .incidents
            .note(&Call::on(&event.session, Verb::ExecuteTool), error);
        // As in `Engine::perform`: no entries for sessions that do not exist.
        if engine.has_session(&event.session) {
            let recorded = blocking(move || {
                engine.record_event(event.outcome(outcome));
                Ok(())
            });
            if let Err(error) = recorded.await {
                tracing::error!(error = error.chain(), "could not record a tool call");
            }
        }
    }
}
