//! [`Work`]: one execution of a tool.

use std::sync::Arc;

use jiff::{Timestamp, tz::TimeZone};
use sandbar_core::{
    ErrorCode, Quiesce, Resources, Result, SnapshotKind, SnapshotName, ToolCallId, ToolProgress,
    ToolResponse, ToolTier,
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
    admission::SharedEntry,
    call_slots::CallClass,
    engine::Engine,
    session::Session,
    worker::ToolWalks,
};

/// Characters of a call id that go into the name of its snapshot.
const MAX_ID_CHARS: usize = 100;

/// A tool call to execute.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) engine: Arc<Engine>,
    pub(super) session: Arc<Session>,
    pub(super) tool: String,
    pub(super) prepared: PreparedCall,
    pub(super) resources: Resources,
    pub(super) trace: Trace,
}

impl Work {
    /// Executes the call on a task that [`Session::calls`](crate::session::Session) owns.
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
        let Self {
            engine,
            session,
            tool,
            prepared,
            resources,
            trace,
        } = self;
        let call = entry.id().clone();
        let slots = Arc::clone(&session.slots);
        let (progress, told) = progress_channel();
        let begun = {
            let (engine, session, call) = (Arc::clone(&engine), Arc::clone(&session), call.clone());
            let cancelled = entry.cancelled().clone();
            slots
                .brief(
                    move || match engine.state.tool_answer(&session.id, &call)? {
                        Some(stored) => Ok(Begun::Stored(stored)),
                        None => Begun::enter(&engine, &session, resources, progress, cancelled),
                    },
                )
                .await?
        };
        let (inside, context) = match begun {
            Begun::Stored(stored) => return Ok(stored),
            Begun::Entered(inside, context) => (inside, context),
        };
        // A tool of the host runs on a thread of the pool.
        let slot = match prepared.tier() {
            ToolTier::Host => Some(slots.acquire(CallClass::Brief).await?),
            ToolTier::Sandbox => None,
        };
        let response = entry.run(prepared, &context, told).await?;
        drop(slot);
        slots.finish(move || {
            let response = if engine.config.per_tool_snapshots && !response.is_error {
                with_snapshot(&engine, &session, &call, response)
            } else {
                response
            };
            if let Err(error) = engine.state.keep_tool_answer(&session.id, &call, &tool, &response) {
                // The response is valid; only a repeated call would execute the tool again.
                tracing::error!(session = %session.id, %call, error = error.chain(), "could not store the response of a tool call");
            }
            trace.answered(&response);
            drop(inside);
            Ok(response)
        })
        .await
    }
}

/// The start of a call.
enum Begun {
    /// The tool ran before; this is its response.
    Stored(ToolResponse),
    /// The tool may run while the entry is held.
    Entered(SharedEntry, Box<ToolContext>),
}

impl Begun {
    fn enter(
        engine: &Arc<Engine>,
        session: &Arc<Session>,
        resources: Resources,
        progress: mpsc::Sender<ToolProgress>,
        cancelled: CancellationToken,
    ) -> Result<Self> {
        engine.admit()?;
        let entry = session.admission.enter_shared()?;
        let record = engine.active(&session.id)?;
        let tree = session.tree(engine)?;
        let resources = resources
            .or(&record.resources)
            .or(&engine.defaults.resources);
        let runner = SessionRunner {
            engine: Arc::clone(engine),
            session: Arc::clone(session),
            record: Arc::new(record),
        };
        let context = ToolContext {
            tree,
            runner: Arc::new(runner),
            walks: Some(Arc::new(ToolWalks {
                engine: Arc::clone(engine),
                limits: session.walks.clone(),
            })),
            resources,
            time_limit: engine.config.tool_timeout,
            progress,
            cancelled,
            shell: Arc::clone(&session.calls.shell),
        };
        Ok(Self::Entered(entry, Box::new(context)))
    }
}

/// Takes the snapshot of a successful call. If that fails, the response says so.
fn with_snapshot(
    engine: &Engine,
    session: &Session,
    call: &ToolCallId,
    mut response: ToolResponse,
) -> ToolResponse {
    match take_snapshot(engine, session, call) {
        Ok(name) => response.snapshot_id = Some(name),
        Err(error) => {
            tracing::error!(session = %session.id, %call, error = error.chain(), "could not take the snapshot of a tool call");
            if !response.content.is_empty() && !response.content.ends_with('\n') {
                response.content.push('\n');
            }
            response
                .content
                .extend(["[could not take a snapshot: ", &error.chain(), "]"]);
        }
    }
    response
}

fn take_snapshot(engine: &Engine, session: &Session, call: &ToolCallId) -> Result<SnapshotName> {
    loop {
        let name = snapshot_name(call, Timestamp::now())?;
        match engine.take_snapshot(
            session,
            &name,
            SnapshotKind::Tool,
            None,
            Quiesce::WhereNeeded,
        ) {
            // Another call with a similar id took this name in the same microsecond.
            Err(error) if error.code() == ErrorCode::SnapshotExists => {}
            outcome => return outcome.map(|snapshot| snapshot.name),
        }
    }
}

/// Returns `tool-<call id>-<time>`, with characters that a name must not have replaced.
fn snapshot_name(call: &ToolCallId, now: Timestamp) -> Result<SnapshotName> {
    let plain: String = call
        .as_str()
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() || character == '_' {
                character
            } else {
                '-'
            }
        })
        .take(MAX_ID_CHARS)
        .collect();
    let time = now
        .to_zoned(TimeZone::UTC)
        .strftime("%Y%m%dT%H%M%S.%6f")
        .to_string();
    SnapshotName::new(format!("tool-{plain}-{time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_call_id_makes_a_valid_snapshot_name() {
        let now: Timestamp = "2026-11-15T12:34:56.123456Z".parse().unwrap();
        let name = |id: &str| {
            snapshot_name(&ToolCallId::new(id).unwrap(), now)
                .unwrap()
                .to_string()
        };
        assert_eq!(
            name("toolu_01AbC"),
            "tool-toolu_01AbC-20261115T123456.123456"
        );
        assert_eq!(name("../a b/é.."), "tool----a-b-----20261115T123456.123456");
        assert!(name(&"x".repeat(256)).len() < 150);
    }
}
