//! The code interpreter as E2B's SDKs reach it.
//!
//! `sandbar-interpreter` runs the server; this module decides which credential a request needs,
//! which variables the server is started with, and how failures are reported. A template that
//! brings a server of its own on that port keeps it.

use axum::{
    body::Body,
    http::{Request, Response, StatusCode},
    response::IntoResponse as _,
};
use sandbar_core::{Error, ErrorCode, SessionId};
use sandbar_interpreter::{Environment, Interpreters};

use crate::{
    auth::{Credential, SessionCaller},
    rest::{ApiError, not_served},
    sandboxes::{SandboxNote, variables},
};

/// E2B's template whose sandboxes have the server from the start.
const TEMPLATE: &str = "code-interpreter-v1";

/// Returns the credential a request needs. SDKs send the access token with code only, not with
/// calls about contexts.
pub(crate) fn credential(path: &str) -> Credential<'static> {
    let is_about_contexts = path.trim_start_matches('/').split('/').next() == Some("contexts");
    if is_about_contexts || path == "/health" {
        Credential::PortAccess
    } else {
        Credential::AccessToken
    }
}

/// Starts the server of a new sandbox ahead of the first request, if its template promises one.
pub(crate) fn start_ahead(interpreters: &Interpreters, session: &SessionId, note: &SandboxNote) {
    if note.template == TEMPLATE {
        interpreters.start_ahead(session, environment(session, note));
    }
}

/// Answers an admitted request for the interpreter of a sandbox.
pub(crate) async fn answer(
    interpreters: &Interpreters,
    caller: &SessionCaller,
    request: Request<Body>,
) -> Response<Body> {
    let environment = environment(&caller.session, &caller.note);
    interpreters
        .forward(&caller.session, &environment, request)
        .await
        .unwrap_or_else(|error| error_response(caller, error))
}

fn environment(session: &SessionId, note: &SandboxNote) -> Environment {
    variables(session, note)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn error_response(caller: &SessionCaller, error: Error) -> Response<Body> {
    match error.code() {
        // `python3` is the only program that is looked up.
        ErrorCode::FileNotFound => ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "the code interpreter needs python3, which this template does not have",
        )
        .into_response(),
        ErrorCode::InvalidState | ErrorCode::ProcessReadyTimeout => {
            let why = error.hint().unwrap_or_default();
            let what = format!(
                "the code interpreter could not be started: {} ({why})",
                error.message()
            );
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, what).into_response()
        }
        _ => not_served(caller.session.as_str(), error),
    }
}
