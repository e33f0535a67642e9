//! Forking a sandbox.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use sandbar_core::{Error, ErrorCode, ForkRequest, Need, SessionId};
use serde_json::{Value, json};

use super::{Control, errors::session_id};
use crate::{
    auth::ApiCaller,
    ingress_domain::IngressDomain,
    rest::{ApiError, ApiResult, Fields, Json, bad_request, seconds},
    sandboxes::{NetworkConfig, SandboxNote, end_after, is_asleep},
};

/// Limit of copies per request.
const MAX_COPIES: i64 = 20;

pub(super) async fn first_version(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Extension(domain): Extension<IngressDomain>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let time = seconds::take(&mut fields, "timeout", 0)?.unwrap_or(Duration::from_secs(15));
    fork(
        &control,
        (&caller, &domain),
        &id,
        time.max(Duration::from_millis(1)),
        fields,
    )
    .await
}

pub(super) async fn second_version(
    State(control): State<Arc<Control>>,
    Extension(caller): Extension<ApiCaller>,
    Extension(domain): Extension<IngressDomain>,
    Path(id): Path<String>,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let time = seconds::take(&mut fields, "timeout", 1)?.unwrap_or(Duration::from_mins(5));
    fork(&control, (&caller, &domain), &id, time, fields).await
}

/// Answers with one result per copy: the sandbox, or an error. Files are copied, as of the same
/// moment for all copies; processes are not.
async fn fork(
    control: &Control,
    (caller, domain): (&ApiCaller, &IngressDomain),
    id: &str,
    time: Duration,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let id = session_id(id)?;
    caller.require(Need::Admin)?;
    let count = fields.take::<i64>("count")?.unwrap_or(1);
    if !(1..=MAX_COPIES).contains(&count) {
        return Err(bad_request(format!(
            "`count` is {count}; ask for 1 to {MAX_COPIES} copies"
        )));
    }
    let (session, note) = (
        control.sandbox(&id).await?,
        control.sandboxes.note(&id).await?,
    );
    if is_asleep(session.state) {
        let why = format!("Sandbox \"{id}\" is paused and cannot be forked; resume it first");
        return Err(ApiError::new(StatusCode::CONFLICT, why));
    }
    let count = usize::try_from(count).unwrap_or(1);
    let (copies, refusal) = control.fork_sessions(&id, count).await?;
    let mut results = Vec::new();
    for copy in &copies {
        results.push(match control.set_up_fork(copy, &note, time, domain).await {
            Ok(handle) => json!({ "sandbox": handle }),
            Err(error) => {
                // A copy that could not be set up is removed.
                let _ = control.host.destroy_session(copy).await;
                json!({ "error": error.to_value() })
            }
        });
    }
    if let Some(refusal) = refusal {
        let error = json!({ "error": ApiError::from(refusal).to_value() });
        results.resize(count, error);
    }
    Ok((StatusCode::CREATED, Json(results.into())))
}

impl Control {
    /// Creates up to `count` copies, as many as the session limit allows, and returns the error for
    /// the others.
    async fn fork_sessions(
        &self,
        id: &SessionId,
        count: usize,
    ) -> ApiResult<(Vec<SessionId>, Option<Error>)> {
        let mut refusal = None;
        for count in (1..=count).rev() {
            match self
                .host
                .fork_session(
                    id,
                    ForkRequest {
                        count,
                        ..ForkRequest::default()
                    },
                )
                .await
            {
                Ok(copies) => {
                    return Ok((copies.into_iter().map(|copy| copy.id).collect(), refusal));
                }
                Err(error) if error.code() == ErrorCode::MaxSessionsReached => {
                    refusal = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok((Vec::new(), refusal))
    }

    /// Gives a copy its own lifetime, note and secrets.
    async fn set_up_fork(
        &self,
        id: &SessionId,
        source: &SandboxNote,
        time: Duration,
        domain: &IngressDomain,
    ) -> ApiResult<Value> {
        let end = end_after(time)?;
        let note = SandboxNote {
            timeout: Some(time.as_secs()),
            end_at: Some(end),
            paused: None,
            request: None,
            ..source.clone()
        };
        self.host
            .set_expiry(id, Some(end), note.on_expiry())
            .await?;
        if note.network.as_ref().is_some_and(NetworkConfig::has_rules) {
            self.apply_network(id, note.clone()).await?;
        } else {
            self.sandboxes.put_note(id, &note).await?;
        }
        if let Some(start) = &note.start {
            self.sandboxes.start_program(id, start).await;
        }
        Ok(self.handle(id, &note, domain).await?)
    }
}
