//! `snapshot`, `rollback`, `fork` and `diff`.

use sandbar_core::{
    Error, ForkRequest, Labels, LaterSnapshots, Quiesce, Result, SessionId, SnapshotName,
};
use serde::Deserialize;
use serde_json::json;

use super::{
    answer::Answer,
    call::Call,
    definition::{Definition, WorksIn, object},
    hints::Hints,
    sandbox::{sandbox_schema, show},
};

/// Limit on listed changes. The result has the total count as well.
const MAX_CHANGES: usize = 1000;

pub(crate) fn define_snapshot() -> Definition {
    Definition {
        name: "snapshot".into(),
        description:
            "Creates a snapshot of all files of the sandbox in milliseconds, without stopping its processes. Restore \
                      it with rollback, copy it with fork, compare with diff."
                .into(),
        hints: Some(Hints::adds("Take a snapshot")),
        input: object(
            json!({
                "name": {"type": "string", "description": "Name of the snapshot. Default: a generated name."},
                "quiesce": {"type": "boolean", "default": false, "description": "Freeze all processes while the snapshot is created, for a consistent state of files that are being written."},
            }),
            &[],
        ),
        output: Some(object(
            json!({
                "sandbox": {"type": "string"},
                "snapshot": {"type": "string", "description": "Name of the snapshot."},
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
    let quiesce = if quiesce {
        Quiesce::Always
    } else {
        Quiesce::WhereNeeded
    };
    let taken = call
        .client
        .create_snapshot(&id, name.as_ref(), quiesce)
        .await?;
    Ok(Answer::structured(
        json!({"sandbox": id, "snapshot": taken.name, "created": taken.created.to_string()}),
    ))
}

pub(crate) fn define_rollback() -> Definition {
    Definition {
        name: "rollback".into(),
        description:
            "Restores all files of the sandbox from a snapshot in milliseconds. Stops all its processes. Deletes \
                      snapshots newer than this one unless keep_later is set."
                .into(),
        hints: Some(Hints::may_destroy("Roll back to a snapshot").repeatable()),
        input: object(
            json!({
                "snapshot": {"type": "string", "description": "Name of the snapshot."},
                "keep_later": {"type": "boolean", "default": false, "description": "Keep newer snapshots, so that you can roll forward to them again."},
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
    let Rollback {
        snapshot,
        keep_later,
    } = call.read()?;
    let id = call.default.resolve(call.client, asked).await?;
    let later = if keep_later {
        LaterSnapshots::Keep
    } else {
        LaterSnapshots::Drop
    };
    let session = call.client.rollback_session(&id, &snapshot, later).await?;
    Ok(Answer::structured(show(&session)))
}

pub(crate) fn define_fork() -> Definition {
    Definition {
        name: "fork".into(),
        description:
            "Creates copies of the sandbox in milliseconds, from its present state or from a snapshot. The copies have \
                      its files but none of its processes, and are independent of it."
                .into(),
        hints: Some(Hints::adds("Fork a sandbox")),
        input: object(
            json!({
                "from": {"type": "string", "description": "Snapshot to copy. Default: the present state."},
                "count": {"type": "integer", "minimum": 1, "maximum": ForkRequest::MAX_COUNT, "default": 1, "description": "Number of copies."},
                "ids": {"type": "array", "items": {"type": "string"}, "description": "Ids of the copies: one for each copy. Default: random ids."},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels of the copies, in addition to those of the sandbox."},
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
    let Fork {
        from,
        count,
        ids,
        labels,
    } = call.read()?;
    // On the wire 0 means the default, so it has to be rejected here.
    if count == Some(0) {
        return Err(Error::invalid("count", "count is 0").with_hint("use at least 1"));
    }
    let id = call.default.resolve(call.client, asked).await?;
    let count = count.unwrap_or_else(|| ids.len().max(1));
    let copies = call
        .client
        .fork_session(
            &id,
            ForkRequest {
                from,
                count,
                ids,
                labels,
            },
        )
        .await?;
    Ok(Answer::structured(
        json!({"sandboxes": copies.iter().map(show).collect::<Vec<_>>()}),
    ))
}

pub(crate) fn define_diff() -> Definition {
    Definition {
        name: "diff".into(),
        description:
            "Lists the files that were added, modified or deleted from one snapshot to a later one, or to the present \
                      state. Lists paths only, not the content of the changes."
                .into(),
        hints: Some(Hints::reads("List changed files")),
        input: object(
            json!({
                "from": {"type": "string", "description": "Name of the older snapshot."},
                "to": {"type": "string", "description": "Name of the newer snapshot. Default: the present state."},
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
                            "path": {"type": "string", "description": "Absolute path; bytes that are not UTF-8 are replaced."},
                            "entry": {"type": "string", "description": "file, directory, symlink, …"},
                            "size": {"type": "integer", "description": "Size of the file in bytes after the change."},
                        }),
                        &["kind", "path", "entry", "size"],
                    ),
                },
                "total": {"type": "integer", "description": "Number of all changes."},
                "truncated": {"type": "boolean", "description": "Whether the list is incomplete."},
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
        .take(MAX_CHANGES)
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
        json!({"changes": listed, "total": changes.len(), "truncated": changes.len() > MAX_CHANGES}),
    ))
}
