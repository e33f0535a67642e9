//! Restarting servers that end by themselves.
//!
//! Clients of E2B poll `/health` from inside the sandbox after a crash, and expect the server to return without a request
//! through the host. A server that was stopped with its sandbox, or killed through the API, is not restarted here; the
//! next request starts it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sandbar_core::{EventKind, EventNews, EventQuery, ProcessId, RestartPolicy, SessionEvent, SessionId};
use serde_json::Value;

use crate::{sandbox::SandboxNote, surface::Surface};

/// Restarts in a row without a request in between, after which only a request starts the server.
const MAX_RESTARTS: u32 = 10;

/// Servers that run or start, by sandbox.
#[derive(Debug, Default)]
pub(super) struct Launched(Mutex<HashMap<SessionId, Server>>);

#[derive(Debug)]
struct Server {
    process: ProcessId,
    note: SandboxNote,
    /// Restarts since the last request.
    restarts: u32,
    /// Whether it has listened.
    is_ready: bool,
}

impl Launched {
    pub(super) fn remember(&self, session: &SessionId, process: ProcessId, note: &SandboxNote, restarts: u32) {
        self.lock().insert(session.clone(), Server { process, note: note.clone(), restarts, is_ready: false });
    }

    /// Records that a server listens.
    pub(super) fn ready(&self, session: &SessionId, process: &ProcessId) {
        if let Some(server) = self.lock().get_mut(session).filter(|server| server.process == *process) {
            server.is_ready = true;
        }
    }

    /// Records that a request has reached the server of a sandbox.
    pub(super) fn reached(&self, session: &SessionId) {
        if let Some(server) = self.lock().get_mut(session) {
            server.restarts = 0;
        }
    }

    /// Forgets the server an event is about, and returns it when it has to be restarted. One that exited with a status
    /// before it listened cannot run in this sandbox, and is not.
    fn ended(&self, event: &SessionEvent) -> Option<Server> {
        let mut servers = self.lock();
        let server = servers.get(&event.session)?;
        let has_exited = event.detail.get("process").and_then(Value::as_str) == Some(server.process.as_str());
        if event.kind != EventKind::SessionDestroyed && !has_exited {
            return None;
        }
        let server = servers.remove(&event.session)?;
        let by_itself = event.kind == EventKind::ProcessExited && !event.detail.contains_key("reason");
        let can_run = server.is_ready || event.detail.contains_key("signal");
        (by_itself && can_run && server.restarts < MAX_RESTARTS).then_some(server)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Server>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Restarts servers until the surface is shut down. Called inside a Tokio runtime.
pub(crate) fn keep_running(surface: &Arc<Surface>) {
    let kinds = vec![EventKind::ProcessExited, EventKind::SessionDestroyed];
    let mut events = surface.host.watch_events(EventQuery { kinds, ..EventQuery::default() });
    let shutdown = surface.shutdown.clone();
    let surface = Arc::downgrade(surface);
    tokio::spawn(async move {
        while let Some(news) = shutdown.run_until_cancelled(events.next()).await {
            let Some(surface) = surface.upgrade() else { return };
            let EventNews::Happened(event) = news else { continue };
            if let Some(server) = surface.interpreters.launched.ended(&event) {
                restart(surface, event.session, server);
            }
        }
    });
}

fn restart(surface: Arc<Surface>, session: SessionId, server: Server) {
    tokio::spawn(async move {
        let shutdown = surface.shutdown.clone();
        let restarting = async {
            tokio::time::sleep(RestartPolicy::back_off(server.restarts)).await;
            surface.interpreters.ensure(&surface.host, &session, &server.note, server.restarts + 1).await
        };
        // The next request tries again, and reports what is wrong.
        if let Some(Err(error)) = shutdown.run_until_cancelled(restarting).await {
            tracing::debug!(%session, error = error.chain(), "the code interpreter was not restarted");
        }
    });
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use sandbar_core::Actor;
    use serde_json::json;

    use super::*;

    fn event(kind: EventKind, detail: &Value) -> SessionEvent {
        SessionEvent {
            sequence: 1,
            at: Timestamp::now(),
            session: SessionId::new("s1").unwrap(),
            actor: Actor::new("test").unwrap(),
            kind,
            state: None,
            outcome: "ok".into(),
            detail: detail.as_object().unwrap().clone(),
        }
    }

    /// Whether the server `p1` is restarted after an event, and whether it is still known.
    fn after(restarts: u32, kind: EventKind, detail: &Value) -> (bool, bool) {
        let (launched, session, process) = launched(restarts);
        launched.ready(&session, &process);
        outcome(&launched, &session, kind, detail)
    }

    /// The same of a server that has not listened yet.
    fn before_ready(kind: EventKind, detail: &Value) -> (bool, bool) {
        let (launched, session, _) = launched(0);
        outcome(&launched, &session, kind, detail)
    }

    fn launched(restarts: u32) -> (Launched, SessionId, ProcessId) {
        let (session, process) = (SessionId::new("s1").unwrap(), ProcessId::new("p1").unwrap());
        let launched = Launched::default();
        launched.remember(&session, process.clone(), &SandboxNote::default(), restarts);
        (launched, session, process)
    }

    fn outcome(launched: &Launched, session: &SessionId, kind: EventKind, detail: &Value) -> (bool, bool) {
        let is_restarted = launched.ended(&event(kind, detail)).is_some();
        (is_restarted, launched.lock().contains_key(session))
    }

    #[test]
    fn a_server_that_ended_by_itself_is_restarted_up_to_a_limit() {
        let exited = json!({ "process": "p1", "signal": 9 });
        assert_eq!(after(0, EventKind::ProcessExited, &exited), (true, false));
        assert_eq!(after(MAX_RESTARTS - 1, EventKind::ProcessExited, &exited), (true, false));
        assert_eq!(after(MAX_RESTARTS, EventKind::ProcessExited, &exited), (false, false));
    }

    #[test]
    fn a_server_that_was_stopped_is_forgotten() {
        let stopped = json!({ "process": "p1", "signal": 9, "reason": "killed" });
        assert_eq!(after(0, EventKind::ProcessExited, &stopped), (false, false));
        assert_eq!(after(0, EventKind::SessionDestroyed, &json!({})), (false, false));
    }

    #[test]
    fn a_server_that_ended_before_it_listened_is_restarted_if_killed() {
        let (killed, failed) = (json!({ "process": "p1", "signal": 9 }), json!({ "process": "p1", "code": 1 }));
        assert_eq!(before_ready(EventKind::ProcessExited, &killed), (true, false));
        assert_eq!(before_ready(EventKind::ProcessExited, &failed), (false, false));
        assert_eq!(after(0, EventKind::ProcessExited, &failed), (true, false));
    }

    #[test]
    fn the_end_of_another_process_changes_nothing() {
        assert_eq!(after(0, EventKind::ProcessExited, &json!({ "process": "p2" })), (false, true));
    }
}
