//! Restarting servers that exit by themselves.
//!
//! Clients of E2B poll `/health` from inside the sandbox after a crash, and expect the server to
//! return without a request through the host. A server that was stopped with its sandbox, or killed
//! through the API, is not restarted here; the next request starts it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use sandbar_core::{
    EventKind, EventNews, EventQuery, MutexExt as _, ProcessId, RestartPolicy, SessionEvent,
    SessionId,
};
use serde_json::Value;

use crate::{interpreters::State, start::Environment};

/// Consecutive restarts without a request in between; after these only a request starts the server.
const MAX_RESTARTS: u32 = 10;

/// Servers that run or are starting, by sandbox.
#[derive(Debug, Default)]
pub(crate) struct Launched(Mutex<HashMap<SessionId, Server>>);

#[derive(Debug)]
struct Server {
    process: ProcessId,
    environment: Environment,
    /// Restarts since the last request.
    restarts: u32,
    /// Whether the server has ever listened.
    is_ready: bool,
}

impl Launched {
    pub(crate) fn insert(
        &self,
        session: &SessionId,
        process: ProcessId,
        environment: &Environment,
        restarts: u32,
    ) {
        self.lock().insert(
            session.clone(),
            Server {
                process,
                environment: environment.clone(),
                restarts,
                is_ready: false,
            },
        );
    }

    /// Records that a server listens.
    pub(crate) fn ready(&self, session: &SessionId, process: &ProcessId) {
        if let Some(server) = self
            .lock()
            .get_mut(session)
            .filter(|server| server.process == *process)
        {
            server.is_ready = true;
        }
    }

    /// Records that a request has reached the server of a sandbox.
    pub(crate) fn reached(&self, session: &SessionId) {
        if let Some(server) = self.lock().get_mut(session) {
            server.restarts = 0;
        }
    }

    /// Removes the server an event is about, and returns it if it has to be restarted. A server
    /// that exited with a status before it listened cannot run in this sandbox and is not
    /// restarted.
    fn ended(&self, event: &SessionEvent) -> Option<Server> {
        let mut servers = self.lock();
        let server = servers.get(&event.session)?;
        let has_exited =
            event.detail.get("process").and_then(Value::as_str) == Some(server.process.as_str());
        if event.kind != EventKind::SessionDestroyed && !has_exited {
            return None;
        }
        let server = servers.remove(&event.session)?;
        let by_itself =
            event.kind == EventKind::ProcessExited && !event.detail.contains_key("reason");
        let can_run = server.is_ready || event.detail.contains_key("signal");
        (by_itself && can_run && server.restarts < MAX_RESTARTS).then_some(server)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Server>> {
        self.0.lock_unpoisoned()
    }
}

/// Spawns the task that restarts servers until shutdown. It holds no strong reference to the state
/// while it waits.
pub(crate) fn watch_exits(state: &Arc<State>) {
    let kinds = vec![EventKind::ProcessExited, EventKind::SessionDestroyed];
    let mut events = state.host.watch_events(EventQuery {
        kinds,
        ..EventQuery::default()
    });
    let shutdown = state.shutdown.clone();
    let weak = Arc::downgrade(state);
    state.tasks.spawn(async move {
        while let Some(news) = shutdown.run_until_cancelled(events.next()).await {
            let Some(state) = weak.upgrade() else {
                return;
            };
            let EventNews::Happened(event) = news else {
                continue;
            };
            if let Some(server) = state.launched.ended(&event) {
                restart(state, event.session, server);
            }
        }
    });
}

fn restart(state: Arc<State>, session: SessionId, server: Server) {
    let tasks = state.tasks.clone();
    tasks.spawn(async move {
        let restarting = async {
            tokio::time::sleep(RestartPolicy::back_off(server.restarts)).await;
            state
                .ensure_started(&session, &server.environment, server.restarts + 1)
                .await
        };
        // The next request tries again and reports the error.
        if let Some(Err(error)) = state.shutdown.run_until_cancelled(restarting).await {
            tracing::debug!(%session, error = error.chain(), "code interpreter not restarted");
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

    /// Returns whether the server `p1` is restarted after an event, and whether it is still listed.
    fn after(restarts: u32, kind: EventKind, detail: &Value) -> (bool, bool) {
        let (launched, session, process) = launched(restarts);
        launched.ready(&session, &process);
        outcome(&launched, &session, kind, detail)
    }

    /// As [`after`], for a server that has not listened yet.
    fn before_ready(kind: EventKind, detail: &Value) -> (bool, bool) {
        let (launched, session, _) = launched(0);
        outcome(&launched, &session, kind, detail)
    }

    fn launched(restarts: u32) -> (Launched, SessionId, ProcessId) {
        let (session, process) = (SessionId::new("s1").unwrap(), ProcessId::new("p1").unwrap());
        let launched = Launched::default();
        launched.insert(&session, process.clone(), &Environment::new(), restarts);
        (launched, session, process)
    }

    fn outcome(
        launched: &Launched,
        session: &SessionId,
        kind: EventKind,
        detail: &Value,
    ) -> (bool, bool) {
        let is_restarted = launched.ended(&event(kind, detail)).is_some();
        (is_restarted, launched.lock().contains_key(session))
    }

    #[test]
    fn crashed_server_is_restarted_up_to_the_limit() {
        let exited = json!({ "process": "p1", "signal": 9 });
        assert_eq!(after(0, EventKind::ProcessExited, &exited), (true, false));
        assert_eq!(
            after(MAX_RESTARTS - 1, EventKind::ProcessExited, &exited),
            (true, false)
        );
        assert_eq!(
            after(MAX_RESTARTS, EventKind::ProcessExited, &exited),
            (false, false)
        );
    }

    #[test]
    fn stopped_server_is_removed_and_not_restarted() {
        let stopped = json!({ "process": "p1", "signal": 9, "reason": "killed" });
        assert_eq!(after(0, EventKind::ProcessExited, &stopped), (false, false));
        assert_eq!(
            after(0, EventKind::SessionDestroyed, &json!({})),
            (false, false)
        );
    }

    #[test]
    fn server_that_never_listened_is_restarted_only_if_killed() {
        let (killed, failed) = (
            json!({ "process": "p1", "signal": 9 }),
            json!({ "process": "p1", "code": 1 }),
        );
        assert_eq!(
            before_ready(EventKind::ProcessExited, &killed),
            (true, false)
        );
        assert_eq!(
            before_ready(EventKind::ProcessExited, &failed),
            (false, false)
        );
        assert_eq!(after(0, EventKind::ProcessExited, &failed), (true, false));
    }

    #[test]
    fn exit_of_another_process_changes_nothing() {
        assert_eq!(
            after(0, EventKind::ProcessExited, &json!({ "process": "p2" })),
            (false, true)
        );
    }
}
