//! What the load is made of. A verb is added here and nowhere else: how it is chosen, done, noted, and recognised after a
//! kill.

use std::{io::Cursor, path::Path};

use sandbar_client::Client;
use sandbar_core::{
    BaseName, ErrorCode, ExecEvent, ExecSpec, ForkRequest, Labels, LaterSnapshots, Quiesce, Resources, Result,
    SessionId, SessionSpec, SnapshotName, ToolCallId, ToolRequest, WriteOptions,
};
use serde_json::json;

use super::{
    book::{Contents, Expected, FILES, Slot, contents, snapshot_names},
    dice::Dice,
};

/// Sessions one client has at most; beyond this it destroys some.
const MOST_SESSIONS: usize = 2;
/// Snapshots a session has at most; beyond this some are deleted.
const MOST_SNAPSHOTS: usize = 4;

/// Something a client asks for, with everything needed to ask again.
#[derive(Clone, Debug)]
pub(super) enum Verb {
    Create { id: SessionId, labels: Labels },
    Destroy { id: SessionId },
    Write { id: SessionId, content: String },
    Exec { id: SessionId, content: String },
    Snapshot { id: SessionId, name: SnapshotName },
    Turn { id: SessionId },
    DeleteSnapshot { id: SessionId, name: SnapshotName },
    Rollback { id: SessionId, name: SnapshotName },
    Fork { id: SessionId, from: Option<SnapshotName>, forks: Vec<SessionId> },
    Tool { id: SessionId, call: String },
    RepeatTool { id: SessionId, call: String, answer: String },
}

impl Verb {
    /// Something that makes sense now.
    pub(super) fn choose(dice: &mut Dice, slot: &mut Slot, who: usize) -> Self {
        slot.names += 1;
        let new = format!("c{who}-{}", slot.names);
        let ids: Vec<SessionId> = slot.sessions.keys().cloned().collect();
        if ids.is_empty() {
            let labels = Labels::from([("client".into(), who.to_string()), ("name".into(), new.clone())]);
            return Self::Create { id: new.parse().unwrap(), labels };
        }
        let id = dice.pick(&ids).clone();
        if ids.len() > MOST_SESSIONS {
            return Self::Destroy { id };
        }
        let expected = &slot.sessions[&id];
        let old = |dice: &mut Dice| dice.pick(&expected.snapshots).0.parse::<SnapshotName>().unwrap();
        if expected.snapshots.len() > MOST_SNAPSHOTS {
            let name = old(dice);
            return if dice.below(2) == 0 { Self::DeleteSnapshot { id, name } } else { Self::Rollback { id, name } };
        }
        match dice.below(16) {
            0..3 => Self::Write { id, content: new },
            3..6 => Self::Exec { id, content: new },
            6..8 => Self::Snapshot { id, name: new.parse().unwrap() },
            8 | 9 => Self::Turn { id },
            10 if !expected.snapshots.is_empty() => Self::DeleteSnapshot { name: old(dice), id },
            11 if !expected.snapshots.is_empty() => Self::Rollback { name: old(dice), id },
            12 => {
                let from = (!expected.snapshots.is_empty() && dice.below(2) == 0).then(|| old(dice));
                let forks = (0..=dice.below(2)).map(|number| format!("{new}-fork-{number}").parse().unwrap()).collect();
                Self::Fork { id, from, forks }
            }
            13 if !expected.answers.is_empty() => {
                let (call, answer) = dice.pick(&expected.answers).clone();
                Self::RepeatTool { id, call, answer }
            }
            14 => Self::Destroy { id },
            _ => Self::Tool { id, call: new },
        }
    }

    pub(super) fn id(&self) -> &SessionId {
        match self {
            Self::Create { id, .. }
            | Self::Destroy { id }
            | Self::Write { id, .. }
            | Self::Exec { id, .. }
            | Self::Snapshot { id, .. }
            | Self::Turn { id }
            | Self::DeleteSnapshot { id, .. }
            | Self::Rollback { id, .. }
            | Self::Fork { id, .. }
            | Self::Tool { id, .. }
            | Self::RepeatTool { id, .. } => id,
        }
    }

    /// Asks the host for it, and returns when the host has acknowledged it.
    pub(super) async fn perform(&self, client: &Client) -> Result<()> {
        match self {
            Self::Create { id, labels } => {
                let mut spec = SessionSpec::new(BaseName::new("host").unwrap());
                spec.id = Some(id.clone());
                spec.labels = labels.clone();
                client.create_session(spec).await.map(drop)
            }
            Self::Destroy { id } => client.destroy_session(id).await,
            Self::Write { id, content } => {
                let source = Cursor::new(content.clone().into_bytes());
                client.write_file(id, Path::new(FILES[0]), WriteOptions::default(), source).await.map(drop)
            }
            Self::Exec { id, content } => {
                run(client, id, &format!("printf %s {content} > g && sync g && mv g f")).await
            }
            Self::Snapshot { id, name } => client.create_snapshot(id, Some(name), Quiesce::WhereNeeded).await.map(drop),
            Self::Turn { id } => client.turn_complete(id).await.map(drop),
            Self::DeleteSnapshot { id, name } => client.delete_snapshot(id, name).await,
            Self::Rollback { id, name } => client.rollback_session(id, name, LaterSnapshots::Drop).await.map(drop),
            Self::Fork { id, from, forks } => {
                let request = ForkRequest {
                    from: from.clone(),
                    count: forks.len(),
                    ids: forks.clone(),
                    ..ForkRequest::default()
                };
                client.fork_session(id, request).await.map(drop)
            }
            Self::Tool { id, call } => {
                let answer = client.execute_tool(id, &tool_request(call)).await?;
                assert_eq!(answer.content, answer_of(call), "{id}");
                Ok(())
            }
            Self::RepeatTool { id, call, answer } => {
                let again = client.execute_tool(id, &tool_request(call)).await?;
                assert_eq!(again.content, *answer, "{id}: the call {call} was repeated");
                Ok(())
            }
        }
    }

    /// Writes into the book that it happened.
    pub(super) fn note(&self, slot: &mut Slot) {
        slot.touched.insert(self.id().clone());
        let expected = match self {
            Self::Create { id, labels } => {
                slot.sessions.insert(id.clone(), Expected { labels: labels.clone(), ..Expected::default() });
                return;
            }
            Self::Destroy { id } => {
                slot.sessions.remove(id);
                return;
            }
            _ => slot.sessions.get_mut(self.id()).unwrap(),
        };
        match self {
            Self::Create { .. } | Self::Destroy { .. } | Self::RepeatTool { .. } => {}
            Self::Write { content, .. } | Self::Exec { content, .. } => expected.contents[0].clone_from(content),
            Self::Snapshot { name, .. } => expected.snapshots.push((name.to_string(), expected.contents.clone())),
            Self::Turn { .. } => {
                expected.turns += 1;
                expected.snapshots.push((format!("turn-{:04}", expected.turns), expected.contents.clone()));
            }
            Self::DeleteSnapshot { name, .. } => expected.snapshots.retain(|(known, _)| *known != name.as_str()),
            Self::Rollback { name, .. } => (expected.contents, expected.snapshots) = rolled_back(expected, name),
            Self::Fork { from, forks, .. } => {
                let contents = match from {
                    None => expected.contents.clone(),
                    Some(name) => rolled_back(expected, name).0,
                };
                let fork = Expected { labels: expected.labels.clone(), contents, ..Expected::default() };
                slot.touched.extend(forks.iter().cloned());
                slot.sessions.extend(forks.iter().map(|id| (id.clone(), fork.clone())));
            }
            Self::Tool { call, .. } => {
                expected.contents[1].push_str(&line_of(call));
                expected.answers.push((call.clone(), answer_of(call)));
            }
        }
    }

    /// Whether it happened although nobody was told.
    pub(super) async fn has_happened(&self, client: &Client, slot: &Slot) -> bool {
        let expected = slot.sessions.get(self.id());
        match self {
            Self::Create { id, .. } => is_there(client, id).await,
            Self::Destroy { id } => !is_there(client, id).await,
            Self::Write { id, content } | Self::Exec { id, content } => contents(client, id).await[0] == *content,
            Self::Snapshot { id, name } => snapshot_names(client, id).await.iter().any(|known| *known == name.as_str()),
            Self::Turn { id } => client.get_session(id).await.unwrap().turn_count > expected.unwrap().turns,
            Self::DeleteSnapshot { id, name } => {
                snapshot_names(client, id).await.iter().all(|known| *known != name.as_str())
            }
            Self::Rollback { id, name } => {
                let (then, left) = rolled_back(expected.unwrap(), name);
                let left: Vec<String> = left.into_iter().map(|(name, _)| name).collect();
                contents(client, id).await == then && snapshot_names(client, id).await == left
            }
            Self::Fork { forks, .. } => is_there(client, &forks[0]).await,
            Self::Tool { id, call } => contents(client, id).await[1].ends_with(&line_of(call)),
            Self::RepeatTool { .. } => false,
        }
    }

    /// What a client does that was not answered, beyond looking: a tool call is repeated under its name.
    pub(super) async fn follow_up(&self, client: &Client, slot: &mut Slot) {
        let Self::Tool { id, call } = self else {
            if let Self::Fork { forks, .. } = self {
                let mut there = 0;
                for fork in forks {
                    there += usize::from(is_there(client, fork).await);
                }
                assert!(there == 0 || there == forks.len(), "{there} of {} forks are there", forks.len());
            }
            slot.touched.insert(self.id().clone());
            return;
        };
        slot.touched.insert(id.clone());
        self.perform(client).await.unwrap();
        let log = contents(client, id).await[1].clone();
        let expected = slot.sessions.get_mut(id).unwrap();
        let once = expected.answers.iter().any(|(known, _)| known == call);
        let again = format!("{}{}", expected.contents[1], line_of(call));
        // What was done and not written down before the kill is done a second time; what was not done is done once.
        assert!(log == again || once && log == expected.contents[1], "{id}: {call} left {log:?} after a repeat");
        expected.contents[1] = log;
        if !once {
            expected.answers.push((call.clone(), answer_of(call)));
        }
    }
}

/// The contents and snapshots of a session that went back.
fn rolled_back(expected: &Expected, name: &SnapshotName) -> (Contents, Vec<(String, Contents)>) {
    let position = expected.snapshots.iter().position(|(known, _)| *known == name.as_str()).unwrap();
    (expected.snapshots[position].1.clone(), expected.snapshots[..=position].to_vec())
}

async fn is_there(client: &Client, id: &SessionId) -> bool {
    match client.get_session(id).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code(), ErrorCode::SessionNotFound, "{id}: {}", error.chain());
            false
        }
    }
}

/// Runs a shell command to its end, which has to be a good one.
pub(super) async fn run(client: &Client, id: &SessionId, script: &str) -> Result<()> {
    let mut command = client.exec(id, ExecSpec::new(["/bin/sh", "-c", script])).await?;
    let mut said = Vec::new();
    while let Some(event) = command.next_event().await? {
        match event {
            ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) => said.extend_from_slice(&bytes),
            ExecEvent::Exited(status) => {
                // A host that is killed takes its boxes with it, and may say so before it is gone.
                if status.code == Some(0) {
                    return Ok(());
                }
                let said = String::from_utf8_lossy(&said).into_owned();
                return Err(sandbar_core::Error::internal(format!("`{script}` in {id}: {status:?}: {said}")));
            }
        }
    }
    Err(sandbar_core::Error::internal("the command had no end"))
}

/// A tool call that leaves a line each time it is done.
fn tool_request(call: &str) -> ToolRequest {
    let params = json!({"cmd": format!("echo {call} >> log; echo done {call}")});
    ToolRequest {
        tool: "bash".into(),
        call: ToolCallId::new(call).unwrap(),
        params: params.as_object().unwrap().clone(),
        resources: Resources::default(),
    }
}

fn line_of(call: &str) -> String {
    format!("{call}\n")
}

fn answer_of(call: &str) -> String {
    format!("done {call}\n")
}
