//! The interpreters of all sandboxes of a host: started on demand, forwarded to, restarted.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Request, Response},
};
use sandbar_core::{Error, ErrorCode, Result, SessionId};
use sandbar_host::{Host, PortConnection, SessionLocks};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    forward,
    restart::{self, Launched},
    start::{self, Environment, PORT},
};

/// Starts, reaches and restarts the interpreter servers of a host. Clones share their state.
#[derive(Clone, Debug)]
pub struct Interpreters(pub(crate) Arc<State>);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) host: Arc<Host>,
    /// Serialises starts per sandbox, so that concurrent requests start one server.
    starting: SessionLocks,
    pub(crate) launched: Launched,
    pub(crate) shutdown: CancellationToken,
    /// Owns the background tasks; see [`Interpreters::closed`].
    pub(crate) tasks: TaskTracker,
}

impl Interpreters {
    /// Watches the host for servers that exit. Background tasks end when `shutdown` is cancelled.
    /// Must be called inside a Tokio runtime.
    pub fn new(host: Arc<Host>, shutdown: CancellationToken) -> Self {
        let state = Arc::new(State {
            host,
            starting: SessionLocks::default(),
            launched: Launched::default(),
            shutdown,
            tasks: TaskTracker::new(),
        });
        restart::watch_exits(&state);
        Self(state)
    }

    /// Starts the server of a sandbox in the background, so that the first request finds it
    /// listening. A failure is only logged: the first request tries again and reports it.
    pub fn start_ahead(&self, session: &SessionId, environment: Environment) {
        let (state, session) = (Arc::clone(&self.0), session.clone());
        self.0.tasks.spawn(async move {
            let starting = state.connect(&session, &environment);
            if let Some(Err(error)) = state.shutdown.run_until_cancelled(starting).await {
                tracing::debug!(%session, error = error.chain(), "code interpreter not started ahead");
            }
        });
    }

    /// Sends a request to the server of a sandbox, which is started if nothing listens, and returns
    /// its streaming response.
    pub async fn forward(
        &self,
        session: &SessionId,
        environment: &Environment,
        request: Request<Body>,
    ) -> Result<Response<Body>> {
        let connection = self.0.connect(session, environment).await?;
        self.0.launched.reached(session);
        forward::forward(connection, request).await
    }

    /// Waits for the background tasks, after `shutdown` was cancelled.
    pub async fn closed(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl State {
    async fn connect(
        &self,
        session: &SessionId,
        environment: &Environment,
    ) -> Result<PortConnection> {
        match self.host.dial_port(session, PORT).await {
            Err(error) if is_closed(&error) => {}
            connected => return connected,
        }
        self.ensure_started(session, environment, 0).await
    }

    /// Starts the server unless one listens. `restarts` counts restarts without a request in
    /// between.
    pub(crate) async fn ensure_started(
        &self,
        session: &SessionId,
        environment: &Environment,
        restarts: u32,
    ) -> Result<PortConnection> {
        let _lock = self.starting.lock(session).await;
        match self.host.dial_port(session, PORT).await {
            Err(error) if is_closed(&error) => {}
            connected => return connected,
        }
        let process = start::launch(&self.host, session, environment).await?;
        // Before it is ready: the server can be killed as soon as it listens, and its exit event
        // must find this entry.
        self.launched
            .insert(session, process.clone(), environment, restarts);
        start::send_sources(&self.host, session, &process).await?;
        self.launched.ready(session, &process);
        self.host.dial_port(session, PORT).await
    }
}

/// Returns whether a dial failed because no process listens on the port.
fn is_closed(error: &Error) -> bool {
    error.code() == ErrorCode::Unavailable && error.field() == Some("port")
}
