//! The code interpreter: what `run_code` of the SDKs talks to.
//!
//! A small server of our own runs in the sandbox, on the port where E2B has its. It is started by the first request for
//! that port, in every sandbox that has `python3`; in sandboxes of E2B's template for code, soon after they were made. One
//! that ends by itself is restarted. Requests are passed on to it as they are, and everything streams. A template that brings a server
//! of its own there keeps it.
//!
//! The server is in `guest`: Python with nothing but its standard library, one process a context. It leaves no file in
//! the sandbox.

mod bundle;
mod forward;
mod restart;
mod start;

pub(crate) use restart::keep_running;
pub(crate) use start::is_interpreter;

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Request, Response, StatusCode},
    response::IntoResponse as _,
};
use sandbar_core::{Error, ErrorCode, SessionId};
use sandbar_host::{Host, PortConnection};

use crate::{
    answer::{ControlError, not_served},
    sandbox::SandboxNote,
    surface::Surface,
    turns::Turns,
    visitor::{Door, Visitor},
};

/// Where E2B has its code interpreter in a sandbox.
pub(crate) const PORT: u16 = 49_999;

/// What a request has to show. SDKs send the access token with code only; contexts can be made and ended without.
pub(crate) fn door(path: &str) -> Door<'static> {
    let is_about_contexts = path.trim_start_matches('/').split('/').next() == Some("contexts");
    if is_about_contexts || path == "/health" { Door::LikePorts } else { Door::Guarded }
}

/// E2B's template whose sandboxes have the server from the start.
const TEMPLATE: &str = "code-interpreter-v1";

/// Starts the server of a new sandbox while nobody waits for it, where its template says that code will be run.
pub(crate) fn start_ahead(surface: &Arc<Surface>, session: &SessionId, note: SandboxNote) {
    if note.template != TEMPLATE {
        return;
    }
    let (surface, session) = (Arc::clone(surface), session.clone());
    tokio::spawn(async move {
        let starting = surface.interpreters.connect(&surface.host, &session, &note);
        let started = surface.shutdown.run_until_cancelled(starting).await;
        // The first request tries again, and says what is wrong.
        if let Some(Err(error)) = started {
            tracing::debug!(%session, error = error.chain(), "the code interpreter was not started ahead");
        }
    });
}

/// The code interpreters of all sandboxes.
#[derive(Debug, Default)]
pub(crate) struct Interpreters {
    /// Those who find nobody listening start the server one after the other, so that there is one.
    starting: Turns,
    launched: restart::Launched,
}

impl Interpreters {
    /// Answers a request for the interpreter of a sandbox whose door has let it in.
    pub(crate) async fn answer(&self, host: &Host, visitor: &Visitor, request: Request<Body>) -> Response<Body> {
        let connection = match self.connect(host, &visitor.session, &visitor.note).await {
            Ok(connection) => connection,
            Err(error) => return refusal(visitor, error),
        };
        self.launched.reached(&visitor.session);
        forward::pass_on(connection, request).await.unwrap_or_else(|error| refusal(visitor, error))
    }

    async fn connect(&self, host: &Host, session: &SessionId, note: &SandboxNote) -> Result<PortConnection, Error> {
        match host.dial_port(session, PORT).await {
            Err(error) if is_closed(&error) => {}
            reached => return reached,
        }
        self.ensure(host, session, note, 0).await
    }

    /// Starts the server unless one listens, after so many restarts without a request.
    async fn ensure(
        &self,
        host: &Host,
        session: &SessionId,
        note: &SandboxNote,
        restarts: u32,
    ) -> Result<PortConnection, Error> {
        let _turn = self.starting.take(session).await;
        match host.dial_port(session, PORT).await {
            Err(error) if is_closed(&error) => {}
            reached => return reached,
        }
        let process = start::launch(host, session, note).await?;
        // It may be killed as soon as it listens, which is before the host has noticed.
        self.launched.remember(session, process.clone(), note, restarts);
        start::make_ready(host, session, &process).await?;
        self.launched.ready(session, &process);
        host.dial_port(session, PORT).await
    }
}

/// Whether no process listens on the port.
fn is_closed(error: &Error) -> bool {
    error.code() == ErrorCode::Unavailable && error.field() == Some("port")
}

fn refusal(visitor: &Visitor, error: Error) -> Response<Body> {
    match error.code() {
        // The program of the server: there is nothing else it could be.
        ErrorCode::FileNotFound => ControlError::new(
            StatusCode::NOT_IMPLEMENTED,
            "the code interpreter needs python3, which this template does not have",
        )
        .into_response(),
        ErrorCode::InvalidState | ErrorCode::ProcessReadyTimeout => {
            let why = error.hint().unwrap_or_default();
            let what = format!("the code interpreter could not be started: {} ({why})", error.message());
            ControlError::new(StatusCode::INTERNAL_SERVER_ERROR, what).into_response()
        }
        _ => not_served(visitor.session.as_str(), error),
    }
}
