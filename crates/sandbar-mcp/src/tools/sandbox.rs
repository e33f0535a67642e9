//! `sandbox_create`, `sandbox_list` and `sandbox_destroy`.

use std::{collections::BTreeMap, time::Duration};

use sandbar_core::{
    BaseName, ByteCount, Error, Labels, NetworkPolicy, Resources, Result, SessionFilter, SessionId, SessionInfo,
    SessionSpec, SessionState,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    answer::Answer,
    call::Call,
    definition::{Definition, WorksIn, object},
    hints::Hints,
};

pub(crate) fn define_create() -> Definition {
    Definition {
        name: "sandbox_create".into(),
        description: "Makes a sandbox: a machine of its own with a writable file system, reached by every other tool \
                      through the returned id. It stays until sandbox_destroy, or until its time to live is over. Its \
                      network is closed unless `network` opens it."
            .into(),
        hints: Some(Hints::adds("Create a sandbox")),
        input: object(
            json!({
                "id": {"type": "string", "description": "Its id; a random one when left out."},
                "base": {"type": "string", "description": "The base it starts from; the host's own programs when left out."},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Tags to find it by."},
                "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment of everything that runs in it."},
                "network": {"type": "string", "description": "What it may reach: none, full, allow=HOST,… or deny=HOST,…"},
                "quota": {"type": "string", "description": "What it may hold beyond its base: 512M, 2G."},
                "memory": {"type": "string", "description": "Memory it may use: 512M."},
                "cpus": {"type": "number", "description": "CPUs it may use: 0.5, 2."},
                "ttl_seconds": {"type": "integer", "minimum": 1, "description": "It is destroyed by itself after so many seconds."},
            }),
            &[],
        ),
        output: Some(sandbox_schema()),
        works_in: WorksIn::NoSandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    id: Option<SessionId>,
    base: Option<BaseName>,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    env: BTreeMap<String, String>,
    network: Option<String>,
    quota: Option<ByteCount>,
    memory: Option<ByteCount>,
    cpus: Option<f64>,
    ttl_seconds: Option<u64>,
}

pub(crate) async fn create(mut call: Call<'_>) -> Result<Answer> {
    let asked: Create = call.read()?;
    let base = asked.base.map_or_else(|| call.default.base(), Ok)?;
    let spec = SessionSpec {
        id: asked.id,
        quota: asked.quota,
        labels: asked.labels,
        resources: Resources { cpus: asked.cpus, memory: asked.memory, ..Resources::default() },
        network: asked.network.as_deref().map(str::parse::<NetworkPolicy>).transpose()?,
        env: asked.env,
        time_to_live: asked.ttl_seconds.map(Duration::from_secs),
        ..SessionSpec::new(base)
    };
    let session = call.client.create_session(spec).await?;
    Ok(Answer::structured(show(&session)))
}

pub(crate) fn define_list() -> Definition {
    Definition {
        name: "sandbox_list".into(),
        description: "Lists the sandboxes of the host, oldest first.".into(),
        hints: Some(Hints::reads("List sandboxes")),
        input: object(
            json!({
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Only those with all of these labels."},
                "state": {"type": "string", "enum": SessionState::ALL.map(SessionState::as_str), "description": "Only those in this state."},
            }),
            &[],
        ),
        output: Some(object(json!({"sandboxes": {"type": "array", "items": sandbox_schema()}}), &["sandboxes"])),
        works_in: WorksIn::NoSandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    labels: Labels,
    state: Option<SessionState>,
}

pub(crate) async fn list(mut call: Call<'_>) -> Result<Answer> {
    let List { labels, state } = call.read()?;
    let mut sessions = call.client.all_sessions(&SessionFilter { labels, state, ..SessionFilter::default() }).await?;
    sessions.retain(|session| call.default.permit(&session.id).is_ok());
    Ok(Answer::structured(json!({"sandboxes": sessions.iter().map(show).collect::<Vec<_>>()})))
}

pub(crate) fn define_destroy() -> Definition {
    Definition {
        name: "sandbox_destroy".into(),
        description: "Destroys a sandbox with everything in it, its snapshots included. Forks of it stay.".into(),
        hints: Some(Hints::may_destroy("Destroy a sandbox").repeatable()),
        input: object(json!({}), &[]),
        output: Some(object(json!({"destroyed": {"type": "string"}}), &["destroyed"])),
        works_in: WorksIn::NamedSandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

pub(crate) async fn destroy(mut call: Call<'_>) -> Result<Answer> {
    let id = call.asked_sandbox()?.ok_or_else(|| {
        Error::invalid("sandbox", "which sandbox is to be destroyed is not said").with_hint("pass its id as `sandbox`")
    })?;
    call.default.permit(&id)?;
    let Nothing {} = call.read()?;
    call.client.destroy_session(&id).await?;
    call.default.forget(&id).await;
    Ok(Answer::structured(json!({"destroyed": id})))
}

/// What is told about a sandbox.
pub(crate) fn show(session: &SessionInfo) -> Value {
    let mut shown = json!({
        "sandbox": session.id,
        "state": session.state,
        "base": session.base,
        "runtime": session.runtime,
        "labels": session.labels,
        "created": session.created.to_string(),
        "space_used": session.space_used.get(),
        "snapshots": session.snapshot_count,
    });
    if let Some(expires) = session.expires {
        shown["expires"] = expires.to_string().into();
    }
    if let Some((parent, snapshot)) = &session.parent {
        shown["forked_from"] = parent.as_str().into();
        if let Some(snapshot) = snapshot {
            shown["forked_at"] = snapshot.as_str().into();
        }
    }
    shown
}

pub(crate) fn sandbox_schema() -> Value {
    object(
        json!({
            "sandbox": {"type": "string", "description": "Its id."},
            "state": {"type": "string", "enum": SessionState::ALL.map(SessionState::as_str)},
            "base": {"type": "string"},
            "runtime": {"type": "string", "description": "The boundary around it: gvisor, native or none."},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "created": {"type": "string"},
            "expires": {"type": "string"},
            "space_used": {"type": "integer", "description": "Bytes it holds beyond its base."},
            "snapshots": {"type": "integer", "description": "How many there are."},
            "forked_from": {"type": "string"},
            "forked_at": {"type": "string"},
        }),
        &["sandbox", "state", "base", "runtime", "labels", "created", "space_used", "snapshots"],
    )
}
