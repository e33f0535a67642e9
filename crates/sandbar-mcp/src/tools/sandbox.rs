//! `sandbox_create`, `sandbox_list` and `sandbox_destroy`.

use std::{collections::BTreeMap, time::Duration};

use sandbar_core::{
    BaseName, ByteCount, Error, Labels, NetworkPolicy, Resources, Result, SessionFilter, SessionId,
    SessionInfo, SessionSpec, SessionState,
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
        description: "Creates a sandbox: an isolated Linux environment with its own writable file system. Pass the returned id \
                      to the other tools. It exists until sandbox_destroy or the end of ttl_seconds. It has no network \
                      access unless `network` is set."
            .into(),
        hints: Some(Hints::adds("Create a sandbox")),
        input: object(
            json!({
                "id": {"type": "string", "description": "Id of the sandbox. Default: a random id."},
                "base": {"type": "string", "description": "Base file system. Default: the programs of the host."},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels, to find the sandbox by."},
                "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables of all its processes."},
                "network": {"type": "string", "description": "Network access: none, full, allow=HOST,… or deny=HOST,…"},
                "quota": {"type": "string", "description": "Disk quota in addition to the base: 512M, 2G."},
                "memory": {"type": "string", "description": "Memory limit: 512M."},
                "cpus": {"type": "number", "description": "CPU limit: 0.5, 2."},
                "ttl_seconds": {"type": "integer", "minimum": 1, "description": "Destroy the sandbox automatically after this number of seconds."},
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
        resources: Resources {
            cpus: asked.cpus,
            memory: asked.memory,
            ..Resources::default()
        },
        network: asked
            .network
            .as_deref()
            .map(str::parse::<NetworkPolicy>)
            .transpose()?,
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
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "List only sandboxes with all of these labels."},
                "state": {"type": "string", "enum": SessionState::ALL.map(SessionState::as_str), "description": "List only sandboxes in this state."},
            }),
            &[],
        ),
        output: Some(object(
            json!({"sandboxes": {"type": "array", "items": sandbox_schema()}}),
            &["sandboxes"],
        )),
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
    let mut sessions = call
        .client
        .all_sessions(&SessionFilter {
            labels,
            state,
            ..SessionFilter::default()
        })
        .await?;
    sessions.retain(|session| call.default.permit(&session.id).is_ok());
    Ok(Answer::structured(
        json!({"sandboxes": sessions.iter().map(show).collect::<Vec<_>>()}),
    ))
}

pub(crate) fn define_destroy() -> Definition {
    Definition {
        name: "sandbox_destroy".into(),
        description:
            "Destroys a sandbox with its files, processes and snapshots. Forks of it are not affected."
                .into(),
        hints: Some(Hints::may_destroy("Destroy a sandbox").repeatable()),
        input: object(json!({}), &[]),
        output: Some(object(
            json!({"destroyed": {"type": "string"}}),
            &["destroyed"],
        )),
        works_in: WorksIn::NamedSandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

pub(crate) async fn destroy(mut call: Call<'_>) -> Result<Answer> {
    let id = call.asked_sandbox()?.ok_or_else(|| {
        Error::invalid("sandbox", "parameter `sandbox` is missing")
            .with_hint("pass the id of the sandbox to destroy")
    })?;
    call.default.permit(&id)?;
    let Nothing {} = call.read()?;
    call.client.destroy_session(&id).await?;
    call.default.clear(&id).await;
    Ok(Answer::structured(json!({"destroyed": id})))
}

/// Returns a sandbox in the form of the schema.
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
            "sandbox": {"type": "string", "description": "Id of the sandbox."},
            "state": {"type": "string", "enum": SessionState::ALL.map(SessionState::as_str)},
            "base": {"type": "string"},
            "runtime": {"type": "string", "description": "Isolation: gvisor, native or none."},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "created": {"type": "string"},
            "expires": {"type": "string"},
            "space_used": {"type": "integer", "description": "Bytes used in addition to the base."},
            "snapshots": {"type": "integer", "description": "Number of snapshots."},
            "forked_from": {"type": "string"},
            "forked_at": {"type": "string"},
        }),
        &[
            "sandbox",
            "state",
            "base",
            "runtime",
            "labels",
            "created",
            "space_used",
            "snapshots",
        ],
    )
}
