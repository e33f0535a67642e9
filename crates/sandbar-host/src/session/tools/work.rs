//! Doing a tool call.

use std::sync::Arc;

use jiff::{Timestamp, tz::TimeZone};
use sandbar_core::{
    ErrorCode, Quiesce, Resources, Result, SnapshotKind, SnapshotName, ToolCallId, ToolProgress, ToolResponse,
};
use sandbar_tools::{
    PreparedCall, ToolContext,
    calls::{Entry, progress_channel},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{runner::SessionRunner, trace::Trace};
use crate::{
    actor::{acting_as, current_actor},
    gate::SharedEntry,
    host::{Inner, blocking},
    session::Session,
};

/// Characters of a call's id that go into the name of its snapshot.
const LONGEST_NAME: usize = 100;

/// A call that is to be done.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) inner: Arc<Inner>,
    pub(super) session: Arc<Session>,
    pub(super) tool: String,
    pub(super) prepared: PreparedCall,
    pub(super) resources: Resources,
    pub(super) trace: Trace,
}

impl Work {
    /// Does it on a task of its own.
    pub(super) fn start(self, entry: Entry) {
        let trace = self.trace.clone();
        entry.spawn(|entry| {
            let work = async move {
                let answer = self.answer(&entry).await;
                if let Err(error) = &answer {
                    trace.failed(error).await;
                }
                entry.end(answer);
            };
            acting_as(current_actor(), work).in_current_span()
        });
    }

    async fn answer(self, entry: &Entry) -> Result<ToolResponse> {
        let Self { inner, session, tool, prepared, resources, trace } = self;
        let call = entry.id().clone();
        let (progress, told) = progress_channel();
        let begun = {
            let (inner, session, call) = (Arc::clone(&inner), Arc::clone(&session), call.clone());
            let cancelled = entry.cancelled().clone();
            blocking(move || match inner.state.tool_answer(&session.id, &call)? {
                Some(stored) => Ok(Begun::Stored(stored)),
                None => Begun::enter(&inner, &session, resources, progress, cancelled),
            })
            .await?
        };
        let (inside, context) = match begun {
            Begun::Stored(stored) => return Ok(stored),
            Begun::Entered(inside, context) => (inside, context),
        };
        let response = entry.run(prepared, &context, told).await?;
        blocking(move || {
            let response = if inner.config.per_tool_snapshots && !response.is_error {
                with_snapshot(&inner, &session, &call, response)
            } else {
                response
            };
            if let Err(error) = inner.state.keep_tool_answer(&session.id, &call, &tool, &response) {
                // The work is done, and its answer is good; only a repeated call would be done again.
                tracing::error!(session = %session.id, %call, error = error.chain(), "could not keep the answer of a tool call");
            }
            trace.answered(&response);
            drop(inside);
            Ok(response)
        })
        .await
    }
}

/// How a call begins.
enum Begun {
    /// It was done before.
    Stored(ToolResponse),
    /// It is in the session, for as long as the entry is held.
    Entered(SharedEntry, Box<ToolContext>),
}

impl Begun {
    fn enter(
        inner: &Arc<Inner>,
        session: &Arc<Session>,
        resources: Resources,
        progress: mpsc::Sender<ToolProgress>,
        cancelled: CancellationToken,
    ) -> Result<Self> {
        inner.admit()?;
        let entry = session.gate.enter_shared()?;
        let record = inner.active(&session.id)?;
        let tree = session.tree(inner)?;
        let resources = resources.or(&record.resources).or(&inner.config.default_resources);
        let runner = SessionRunner { inner: Arc::clone(inner), session: Arc::clone(session), record: Arc::new(record) };
        let context = ToolContext {
            tree,
            runner: Arc::new(runner),
            resources,
            time_limit: inner.config.tool_timeout,
            progress,
            cancelled,
            shell: Arc::clone(&session.calls.shell),
        };
        Ok(Self::Entered(entry, Box::new(context)))
    }
}

/// Takes the snapshot of a call that has succeeded. When that fails, the answer says so: it is never left out in silence.
fn with_snapshot(inner: &Inner, session: &Session, call: &ToolCallId, mut response: ToolResponse) -> ToolResponse {
    match take_snapshot(inner, session, call) {
        Ok(name) => response.snapshot_id = Some(name),
        Err(error) => {
            tracing::error!(session = %session.id, %call, error = error.chain(), "could not take the snapshot of a tool call");
            if !response.content.is_empty() && !response.content.ends_with('\n') {
                response.content.push('\n');
            }
            response.content.extend(["[no snapshot was taken: ", &error.chain(), "]"]);
        }
    }
    response
}

fn take_snapshot(inner: &Inner, session: &Session, call: &ToolCallId) -> Result<SnapshotName> {
    loop {
        let name = snapshot_name(call, Timestamp::now())?;
        match inner.take_snapshot(session, &name, SnapshotKind::Tool, None, Quiesce::WhereNeeded) {
            // Another call with much the same name, in the same microsecond.
            Err(error) if error.code() == ErrorCode::SnapshotExists => {}
            outcome => return outcome.map(|snapshot| snapshot.name),
        }
    }
}

/// `tool-<call id>-<time>`, with what cannot be in a name replaced.
fn snapshot_name(call: &ToolCallId, now: Timestamp) -> Result<SnapshotName> {
    let plain: String = call
        .as_str()
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() || character == '_' { character } else { '-' })
        .take(LONGEST_NAME)
        .collect();
    let time = now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S.%6f").to_string();
    SnapshotName::new(format!("tool-{plain}-{time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_call_id_gives_a_snapshot_a_name() {
        let now: Timestamp = "2026-11-15T12:34:56.123456Z".parse().unwrap();
        let name = |id: &str| snapshot_name(&ToolCallId::new(id).unwrap(), now).unwrap().to_string();
        assert_eq!(name("toolu_01AbC"), "tool-toolu_01AbC-20261115T123456.123456");
        assert_eq!(name("../a b/é.."), "tool----a-b-----20261115T123456.123456");
        assert!(name(&"x".repeat(256)).len() < 150);
    }
}
