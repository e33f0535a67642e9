//! `snapshot`, `rollback`, `fork` and `diff`.

use sandbar_core::{ForkRequest, Labels, LaterSnapshots, Quiesce, Result, SessionId, SnapshotName};
use serde::Deserialize;
use serde_json::json;

use super::{
    answer::Answer,
    call::Call,
    definition::{Definition, WorksIn, object},
    hints::Hints,
    sandbox::{sandbox_schema, show},
};

/// Changes that are told; a model can do nothing with more, and how many there were is told anyway.
const MOST_CHANGES: usize = 1000;

pub(crate) fn define_snapshot() -> Definition {
    Definition {
        name: "snapshot".into(),
        description:
            "Takes a snapshot of the sandbox's files, in milliseconds, while everything in it goes on. Go back to \
                      it with rollback, branch off with fork, compare with diff."
                .into(),
        hints: Some(Hints::adds("Take a snapshot")),
        input: object(
            json!({
                "name": {"type": "string", "description": "Its name; one is made up when left out."},
                "quiesce": {"type": "boolean", "default": false, "description": "Freeze what runs for the moment it takes."},
            }),
            &[],
        ),
        output: Some(object(
            json!({
                "sandbox": {"type": "string"},
                "snapshot": {"type": "string", "description": "Its name."},
                "created": {"type": "string"},
            }),
            &["sandbox", "snapshot", "created"],
        )),
        works_in: WorksIn::Sandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    name: Option<SnapshotName>,
    #[serde(default)]
    quiesce: bool,
}

pub(crate) async fn snapshot(mut call: Call<'_>) -> Result<Answer> {
    let asked = call.asked_sandbox()?;
    let Snapshot { name, quiesce } = call.read()?;
    let id = call.default.resolve(call.client, asked).await?;
    let quiesce = if quiesce { Quiesce::Always } else { Quiesce::WhereNeeded };
    let taken = call.client.create_snapshot(&id, name.as_ref(), quiesce).await?;
    Ok(Answer::structured(json!({"sandbox": id, "snapshot": taken.name, "created": taken.created.to_string()})))
}

pub(crate) fn define_rollback() -> Definition {
    Definition {
        name: "rollback".into(),
        description:
            "Puts the sandbox's files back to a snapshot, in milliseconds. What runs in it is stopped. Snapshots \
                      taken after that one are dropped unless keep_later is set."
                .into(),
        hints: Some(Hints::may_destroy("Roll back to a snapshot").repeatable()),
        input: object(
            json!({
                "snapshot": {"type": "string", "description": "The name of the snapshot."},
                "keep_later": {"type": "boolean", "default": false, "description": "Keep the snapshots taken after it, so that you can go forward again."},
            }),
            &["snapshot"],
        ),
        output: Some(sandbox_schema()),
        works_in: WorksIn::Sandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rollback {
    snapshot: SnapshotName,
    #[serde(default)]
    keep_later: bool,
}

pub(crate) async fn rollback(mut call: Call<'_>) -> Result<Answer> {
    let asked = call.asked_sandbox()?;
    let Rollback { snapshot, keep_later } = call.read()?;
    let id = call.default.resolve(call.client, asked).await?;
    let later = if keep_later { LaterSnapshots::Keep } else { LaterSnapshots::Drop };
    let session = call.client.rollback_session(&id, &snapshot, later).await?;
    Ok(Answer::structured(show(&session)))
}

pub(crate) fn define_fork() -> Definition {
    Definition {
        name: "fork".into(),
        description:
            "Makes copies of the sandbox, from now or from a snapshot, in milliseconds. They have its files and \
                      none of its processes, and go their own ways."
                .into(),
        hints: Some(Hints::adds("Fork a sandbox")),
        input: object(
            json!({
                "from": {"type": "string", "description": "The snapshot to start from; now when left out."},
                "count": {"type": "integer", "minimum": 1, "maximum": ForkRequest::MOST, "default": 1, "description": "How many copies."},
                "ids": {"type": "array", "items": {"type": "string"}, "description": "Their ids: one for each copy, or none at all."},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels of the copies, beside those of the sandbox."},
            }),
            &[],
        ),
        output: Some(object(json!({"sandboxes": {"type": "array", "items": sandbox_schema()}}), &["sandboxes"])),
        works_in: WorksIn::Sandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fork {
    from: Option<SnapshotName>,
    count: Option<usize>,
    #[serde(default)]
    ids: Vec<SessionId>,
    #[serde(default)]
    labels: Labels,
}

pub(crate) async fn fork(mut call: Call<'_>) -> Result<Answer> {
    let asked = call.asked_sandbox()?;
    let Fork { from, count, ids, labels } = call.read()?;
    let id = call.default.resolve(call.client, asked).await?;
    let count = count.unwrap_or_else(|| ids.len().max(1));
    let copies = call.client.fork_session(&id, ForkRequest { from, count, ids, labels }).await?;
    Ok(Answer::structured(json!({"sandboxes": copies.iter().map(show).collect::<Vec<_>>()})))
}

pub(crate) fn define_diff() -> Definition {
    Definition {
        name: "diff".into(),
        description:
            "Lists the files that were added, modified or deleted between a snapshot and a later one, or now. \
                      It names them and does not show their content."
                .into(),
        hints: Some(Hints::reads("List changed files")),
        input: object(
            json!({
                "from": {"type": "string", "description": "The older snapshot."},
                "to": {"type": "string", "description": "The newer snapshot; now when left out."},
            }),
            &["from"],
        ),
        output: Some(object(
            json!({
                "changes": {
                    "type": "array",
                    "items": object(
                        json!({
                            "kind": {"type": "string", "enum": ["added", "modified", "deleted"]},
                            "path": {"type": "string", "description": "Absolute; what is not UTF-8 in it is replaced."},
                            "entry": {"type": "string", "description": "file, directory, symlink, …"},
                            "size": {"type": "integer", "description": "Bytes of a file after the change."},
                        }),
                        &["kind", "path", "entry", "size"],
                    ),
                },
                "total": {"type": "integer", "description": "How many changes there are."},
                "truncated": {"type": "boolean", "description": "Whether there are more than are listed."},
            }),
            &["changes", "total", "truncated"],
        )),
        works_in: WorksIn::Sandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Diff {
    from: SnapshotName,
    to: Option<SnapshotName>,
}

pub(crate) async fn diff(mut call: Call<'_>) -> Result<Answer> {
    let asked = call.asked_sandbox()?;
    let Diff { from, to } = call.read()?;
    let id = call.default.resolve(call.client, asked).await?;
    let changes = call.client.diff(&id, &from, to.as_ref()).await?;
    let listed: Vec<_> = changes
        .iter()
        .take(MOST_CHANGES)
        .map(|change| {
            json!({
                "kind": change.kind.as_str(),
                "path": change.path.to_string_lossy(),
                "entry": change.entry.as_str(),
                "size": change.size,
            })
        })
        .collect();
    Ok(Answer::structured(
        json!({"changes": listed, "total": changes.len(), "truncated": changes.len() > MOST_CHANGES}),
    ))
}
