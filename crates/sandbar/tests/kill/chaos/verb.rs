//! Operations of the load: how each is chosen, performed, recorded, and recognised after a kill. A
//! new operation is added only here.

use std::collections::BTreeSet;

use sandbar_client::Client;
use sandbar_core::{
    BaseName, ForkRequest, Keep, Labels, LaterSnapshots, Quiesce, Result, SaveBase, SessionId,
    SessionSpec, SessionState, SnapshotName,
};

use super::{
    book::{Contents, Expected, Slot, contents, process_names, snapshot_names, state},
    ports::ListeningSocket,
    steps::{answer_of, assert_refused, is_there, launch, line_of, run, tool_request, write},
};
use crate::dice::Dice;

/// Limit on sessions of a client; beyond it some are destroyed.
const MAX_SESSIONS: usize = 2;
/// Limit on snapshots of a session; beyond it some are deleted.
const MAX_SNAPSHOTS: usize = 4;

/// Operation of a client, with everything needed to repeat it.
#[derive(Clone, Debug)]
pub(super) enum Verb {
    Create {
        id: SessionId,
        labels: Labels,
    },
    Destroy {
        id: SessionId,
    },
    Write {
        id: SessionId,
        content: String,
    },
    Exec {
        id: SessionId,
        content: String,
    },
    Snapshot {
        id: SessionId,
        name: SnapshotName,
    },
    Turn {
        id: SessionId,
    },
    DeleteSnapshot {
        id: SessionId,
        name: SnapshotName,
    },
    Rollback {
        id: SessionId,
        name: SnapshotName,
    },
    Fork {
        id: SessionId,
        from: Option<SnapshotName>,
        forks: Vec<SessionId>,
    },
    Tool {
        id: SessionId,
        call: String,
    },
    RepeatTool {
        id: SessionId,
        call: String,
        answer: String,
    },
    Launch {
        id: SessionId,
        name: String,
    },
    Pause {
        id: SessionId,
    },
    PauseKeepingFiles {
        id: SessionId,
    },
    /// Saves a base from a session, creates a session from it, and deletes the base.
    MakeFromSaved {
        id: SessionId,
        base: BaseName,
        made: SessionId,
        labels: Labels,
    },
    Resume {
        id: SessionId,
    },
    Hibernate {
        id: SessionId,
    },
    Wake {
        id: SessionId,
    },
    /// Operation that an inactive session refuses without a change.
    Refused {
        id: SessionId,
    },
}

impl Verb {
    /// Chooses an operation that is possible now.
    pub(super) fn choose(dice: &mut Dice, slot: &mut Slot, client: usize) -> Self {
        slot.names += 1;
        let new = format!("c{client}-{}", slot.names);
        let ids: Vec<SessionId> = slot.sessions.keys().cloned().collect();
        if ids.is_empty() {
            let labels = Labels::from([
                ("client".into(), client.to_string()),
                ("name".into(), new.clone()),
            ]);
            return Self::Create {
                id: new.parse().unwrap(),
                labels,
            };
        }
        let id = dice.pick(&ids).clone();
        if ids.len() > MAX_SESSIONS {
            return Self::Destroy { id };
        }
        let expected = &slot.sessions[&id];
        if expected.state == SessionState::Hibernated {
            return match dice.below(6) {
                0 => Self::Refused { id },
                1 => Self::Destroy { id },
                _ => Self::Wake { id },
            };
        }
        let old = |dice: &mut Dice| {
            dice.pick(&expected.snapshots)
                .0
                .parse::<SnapshotName>()
                .unwrap()
        };
        if expected.snapshots.len() > MAX_SNAPSHOTS {
            let name = old(dice);
            return if dice.below(2) == 0 {
                Self::DeleteSnapshot { id, name }
            } else {
                Self::Rollback { id, name }
            };
        }
        if expected.state == SessionState::Paused {
            return match dice.below(8) {
                0 => Self::Refused { id },
                1 => Self::Snapshot {
                    id,
                    name: new.parse().unwrap(),
                },
                2 if !expected.snapshots.is_empty() => Self::Rollback {
                    name: old(dice),
                    id,
                },
                3 => Self::Fork {
                    id,
                    from: None,
                    forks: vec![format!("{new}-fork").parse().unwrap()],
                },
                4 => Self::Hibernate { id },
                _ => Self::Resume { id },
            };
        }
        match dice.below(25) {
            0..3 => Self::Write { id, content: new },
            3..6 => Self::Exec { id, content: new },
            6..8 => Self::Snapshot {
                id,
                name: new.parse().unwrap(),
            },
            8 | 9 => Self::Turn { id },
            10 if !expected.snapshots.is_empty() => Self::DeleteSnapshot {
                name: old(dice),
                id,
            },
            11 if !expected.snapshots.is_empty() => Self::Rollback {
                name: old(dice),
                id,
            },
            12 => {
                let from =
                    (!expected.snapshots.is_empty() && dice.below(2) == 0).then(|| old(dice));
                let forks = (0..=dice.below(2))
                    .map(|number| format!("{new}-fork-{number}").parse().unwrap())
                    .collect();
                Self::Fork { id, from, forks }
            }
            13 if !expected.answers.is_empty() => {
                let (call, answer) = dice.pick(&expected.answers).clone();
                Self::RepeatTool { id, call, answer }
            }
            14 => Self::Destroy { id },
            15..18 => Self::Launch { id, name: new },
            18 | 19 if slot.can_pause => Self::Pause { id },
            20 => Self::Hibernate { id },
            22 => Self::PauseKeepingFiles { id },
            23 | 24 => Self::MakeFromSaved {
                base: format!("{new}-base").parse().unwrap(),
                made: format!("{new}-made").parse().unwrap(),
                labels: expected.labels.clone(),
                id,
            },
            _ => Self::Tool { id, call: new },
        }
    }

    /// Returns the hibernation of a session of this client, if it has an active one.
    pub(super) fn hibernate_one(slot: &Slot) -> Option<Self> {
        let here = slot
            .sessions
            .iter()
            .find(|(_, expected)| expected.state != SessionState::Hibernated);
        here.map(|(id, _)| Self::Hibernate { id: id.clone() })
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
            | Self::RepeatTool { id, .. }
            | Self::Launch { id, .. }
            | Self::Pause { id }
            | Self::PauseKeepingFiles { id }
            | Self::MakeFromSaved { id, .. }
            | Self::Resume { id }
            | Self::Hibernate { id }
            | Self::Wake { id }
            | Self::Refused { id } => id,
        }
    }

    /// Performs it, and returns when the host has acknowledged it. Opened ports are added to
    /// `ports`.
    pub(super) async fn perform(
        &self,
        client: &Client,
        ports: &mut BTreeSet<ListeningSocket>,
    ) -> Result<()> {
        match self {
            Self::Create { id, labels } => {
                let mut spec = SessionSpec::new(BaseName::new("host").unwrap());
                spec.id = Some(id.clone());
                spec.labels = labels.clone();
                client.create_session(spec).await.map(drop)
            }
            Self::Destroy { id } => client.destroy_session(id).await,
            Self::Write { id, content } => write(client, id, content).await,
            Self::Exec { id, content } => {
                run(
                    client,
                    id,
                    &format!("printf %s {content} > g && sync g && mv g f"),
                )
                .await
            }
            Self::Snapshot { id, name } => client
                .create_snapshot(id, Some(name), Quiesce::WhereNeeded)
                .await
                .map(drop),
            Self::Turn { id } => client.turn_complete(id).await.map(drop),
            Self::DeleteSnapshot { id, name } => client.delete_snapshot(id, name).await,
            Self::Rollback { id, name } => client
                .rollback_session(id, name, LaterSnapshots::Drop)
                .await
                .map(drop),
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
            Self::Launch { id, name } => {
                ports.extend(launch(client, id, name).await?);
                Ok(())
            }
            Self::Pause { id } => client.pause_session(id).await.map(drop),
            Self::PauseKeepingFiles { id } => client
                .pause_session_keeping(id, Keep::Files)
                .await
                .map(drop),
            Self::MakeFromSaved {
                id,
                base,
                made,
                labels,
            } => {
                client.save_base(id, SaveBase::new(base.clone())).await?;
                let (id, labels) = (Some(made.clone()), labels.clone());
                client
                    .create_session(SessionSpec {
                        id,
                        labels,
                        ..SessionSpec::new(base.clone())
                    })
                    .await?;
                client.delete_base(base).await
            }
            Self::Resume { id } => client.resume_session(id).await.map(drop),
            Self::Hibernate { id } => client.hibernate_session(id).await.map(drop),
            Self::Wake { id } => client.wake_session(id).await.map(drop),
            Self::Refused { id } => assert_refused(client, id).await,
        }
    }

    /// Records in the book that it happened.
    pub(super) fn record(&self, slot: &mut Slot) {
        slot.touched.insert(self.id().clone());
        let expected = match self {
            Self::Create { id, labels } => {
                slot.sessions.insert(
                    id.clone(),
                    Expected::new(labels.clone(), Contents::default()),
                );
                return;
            }
            Self::Destroy { id } => {
                slot.sessions.remove(id);
                return;
            }
            _ => slot.sessions.get_mut(self.id()).unwrap(),
        };
        if let Some(reason) = self.ends_processes() {
            expected.end_processes(reason);
        }
        match self {
            Self::Create { .. }
            | Self::Destroy { .. }
            | Self::RepeatTool { .. }
            | Self::Refused { .. } => {}
            Self::Write { content, .. } | Self::Exec { content, .. } => {
                expected.contents[0].clone_from(content);
            }
            Self::Snapshot { name, .. } => expected
                .snapshots
                .push((name.to_string(), expected.contents.clone())),
            Self::Turn { .. } => {
                expected.turns += 1;
                expected.snapshots.push((
                    format!("turn-{:04}", expected.turns),
                    expected.contents.clone(),
                ));
            }
            Self::DeleteSnapshot { name, .. } => expected
                .snapshots
                .retain(|(known, _)| *known != name.as_str()),
            Self::Rollback { name, .. } => {
                (expected.contents, expected.snapshots) = rolled_back(expected, name);
            }
            Self::Launch { name, .. } => expected.processes.push((name.clone(), None)),
            Self::MakeFromSaved { made, labels, .. } => {
                let copy = Expected::new(labels.clone(), expected.contents.clone());
                slot.touched.insert(made.clone());
                slot.sessions.insert(made.clone(), copy);
            }
            Self::Pause { .. } | Self::PauseKeepingFiles { .. } => {
                expected.state = SessionState::Paused;
            }
            Self::Resume { .. } | Self::Wake { .. } => expected.state = SessionState::Active,
            Self::Hibernate { .. } => expected.state = SessionState::Hibernated,
            Self::Fork { from, forks, .. } => {
                let contents = match from {
                    None => expected.contents.clone(),
                    Some(name) => rolled_back(expected, name).0,
                };
                let fork = Expected::new(expected.labels.clone(), contents);
                slot.touched.extend(forks.iter().cloned());
                slot.sessions
                    .extend(forks.iter().map(|id| (id.clone(), fork.clone())));
            }
            Self::Tool { call, .. } => {
                expected.contents[1].push_str(&line_of(call));
                expected.answers.push((call.clone(), answer_of(call)));
            }
        }
    }

    /// Returns the exit reason of the session's processes, if it ends them.
    pub(super) fn ends_processes(&self) -> Option<&'static str> {
        match self {
            Self::Rollback { .. } => Some("session rolled back"),
            Self::PauseKeepingFiles { .. } => Some("paused without memory"),
            Self::Hibernate { .. } => Some("session hibernated"),
            _ => None,
        }
    }

    /// Returns whether it happened without an acknowledgement.
    pub(super) async fn has_happened(&self, client: &Client, slot: &Slot) -> bool {
        let expected = slot.sessions.get(self.id());
        match self {
            Self::Create { id, .. } => is_there(client, id).await,
            Self::Destroy { id } => !is_there(client, id).await,
            Self::Write { id, content } | Self::Exec { id, content } => {
                contents(client, id).await[0] == *content
            }
            Self::Snapshot { id, name } => snapshot_names(client, id)
                .await
                .iter()
                .any(|known| *known == name.as_str()),
            Self::Turn { id } => {
                client.get_session(id).await.unwrap().turn_count > expected.unwrap().turns
            }
            Self::DeleteSnapshot { id, name } => snapshot_names(client, id)
                .await
                .iter()
                .all(|known| *known != name.as_str()),
            Self::Rollback { id, name } => {
                let (then, left) = rolled_back(expected.unwrap(), name);
                let left: Vec<String> = left.into_iter().map(|(name, _)| name).collect();
                contents(client, id).await == then && snapshot_names(client, id).await == left
            }
            Self::Fork { forks, .. } => is_there(client, &forks[0]).await,
            Self::Tool { id, call } => contents(client, id).await[1].ends_with(&line_of(call)),
            Self::RepeatTool { .. } | Self::Refused { .. } => false,
            Self::Launch { id, name } => process_names(client, id).await.contains(name),
            Self::Pause { id } | Self::PauseKeepingFiles { id } => {
                state(client, id).await == SessionState::Paused
            }
            Self::MakeFromSaved { made, .. } => is_there(client, made).await,
            Self::Resume { id } | Self::Wake { id } => {
                state(client, id).await == SessionState::Active
            }
            Self::Hibernate { id } => state(client, id).await == SessionState::Hibernated,
        }
    }

    /// Acts as a client without an answer: repeats a tool call under its id, and deletes a base
    /// that still exists.
    pub(super) async fn follow_up(&self, client: &Client, slot: &mut Slot) {
        let Self::Tool { id, call } = self else {
            if let Self::Fork { forks, .. } = self {
                let mut there = 0;
                for fork in forks {
                    there += usize::from(is_there(client, fork).await);
                }
                assert!(
                    there == 0 || there == forks.len(),
                    "{there} of {} forks are there",
                    forks.len()
                );
            }
            if let Self::MakeFromSaved { base, .. } = self
                && client
                    .list_bases()
                    .await
                    .unwrap()
                    .iter()
                    .any(|known| known.name == *base)
            {
                client.delete_base(base).await.unwrap();
            }
            slot.touched.insert(self.id().clone());
            return;
        };
        slot.touched.insert(id.clone());
        self.perform(client, &mut slot.ports).await.unwrap();
        let log = contents(client, id).await[1].clone();
        let expected = slot.sessions.get_mut(id).unwrap();
        let once = expected.answers.iter().any(|(known, _)| known == call);
        let again = format!("{}{}", expected.contents[1], line_of(call));
        // A call that ran but was not recorded before the kill runs again; one that did not run,
        // once.
        assert!(
            log == again || once && log == expected.contents[1],
            "{id}: {call} left {log:?} after a repeat"
        );
        expected.contents[1] = log;
        if !once {
            expected.answers.push((call.clone(), answer_of(call)));
        }
    }
}

/// Returns the contents and snapshots of a session after a rollback.
fn rolled_back(expected: &Expected, name: &SnapshotName) -> (Contents, Vec<(String, Contents)>) {
    let position = expected
        .snapshots
        .iter()
        .position(|(known, _)| *known == name.as_str())
        .unwrap();
    (
        expected.snapshots[position].1.clone(),
        expected.snapshots[..=position].to_vec(),
    )
}
