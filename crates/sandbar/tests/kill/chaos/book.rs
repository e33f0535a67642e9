//! The oracle: acknowledged operations, and those in progress at the kill.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use sandbar_client::Client;
use sandbar_core::{
    ErrorCode, Labels, ProcessStatus, SessionFilter, SessionId, SessionInfo, SessionState,
};

use super::{ports::ListeningSocket, steps::run, verb::Verb};

/// Exit reason of processes whose host was killed.
const HOST_RESTARTED: &str = "host restarted";

/// Files of a session that change.
pub(super) const FILES: [&str; 2] = ["/workspace/f", "/workspace/log"];

/// Contents of [`FILES`]; empty for a missing file.
pub(super) type Contents = [String; 2];

/// Expected state of a session.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Active, paused or hibernated.
    pub(super) state: SessionState,
    pub(super) labels: Labels,
    pub(super) contents: Contents,
    /// Snapshots with their contents, oldest first.
    pub(super) snapshots: Vec<(String, Contents)>,
    pub(super) turns: u64,
    /// Finished tool calls with their results.
    pub(super) answers: Vec<(String, String)>,
    /// Names of processes, oldest first, with the exit reason of those that have exited.
    pub(super) processes: Vec<(String, Option<String>)>,
}

impl Expected {
    /// Returns the state of a new session.
    pub(super) fn new(labels: Labels, contents: Contents) -> Self {
        Self {
            state: SessionState::Active,
            labels,
            contents,
            snapshots: Vec::new(),
            turns: 0,
            answers: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// Records that all processes have exited.
    pub(super) fn end_processes(&mut self, reason: &str) {
        for (_, ended) in &mut self.processes {
            ended.get_or_insert_with(|| reason.to_owned());
        }
    }
}

/// Sessions of all clients.
pub(super) type Book<'a> = BTreeMap<&'a SessionId, &'a Expected>;

/// Sessions of one client: a session and its forks. No other client uses them.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) sessions: BTreeMap<SessionId, Expected>,
    /// Operation without an answer yet.
    pub(super) pending: Option<Verb>,
    /// Sessions used since their last check.
    pub(super) touched: BTreeSet<SessionId>,
    /// Counter for unique names.
    pub(super) names: u64,
    /// Number of acknowledged operations.
    pub(super) acknowledged: u64,
    /// Ports that the current host has opened for processes.
    pub(super) ports: BTreeSet<ListeningSocket>,
    /// Whether the host can pause sessions.
    pub(super) can_pause: bool,
}

pub(super) async fn contents(client: &Client, id: &SessionId) -> Contents {
    let mut contents = Contents::default();
    for (content, file) in contents.iter_mut().zip(FILES) {
        let mut bytes = Vec::new();
        match client.read_file(id, Path::new(file), &mut bytes).await {
            Ok(_) => *content = String::from_utf8(bytes).unwrap(),
            Err(error) => assert_eq!(
                error.code(),
                ErrorCode::FileNotFound,
                "{id}: {}",
                error.chain()
            ),
        }
    }
    contents
}

pub(super) async fn snapshot_names(client: &Client, id: &SessionId) -> Vec<String> {
    let snapshots = client.list_snapshots(id).await.unwrap();
    snapshots
        .into_iter()
        .map(|snapshot| snapshot.name.to_string())
        .collect()
}

pub(super) async fn state(client: &Client, id: &SessionId) -> SessionState {
    client.get_session(id).await.unwrap().state
}

/// Returns the processes of a session in the form of the book.
async fn processes(client: &Client, id: &SessionId) -> Vec<(String, Option<String>)> {
    let found = client
        .list_processes(id)
        .await
        .unwrap()
        .into_iter()
        .map(|info| {
            let ended = info.exit.filter(|_| info.status == ProcessStatus::Exited);
            assert!(
                ended.is_none() || info.address.is_none(),
                "{id}: a process that has exited has an address"
            );
            (
                info.argv.last().unwrap().clone(),
                ended.map(|exit| exit.reason.unwrap_or_default()),
            )
        });
    found.collect()
}

pub(super) async fn process_names(client: &Client, id: &SessionId) -> Vec<String> {
    processes(client, id)
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// Returns all sessions of the host.
pub(super) async fn observed(client: &Client) -> BTreeMap<SessionId, SessionInfo> {
    let sessions = client
        .all_sessions(&SessionFilter::default())
        .await
        .unwrap();
    sessions
        .into_iter()
        .map(|session| (session.id.clone(), session))
        .collect()
}

impl Slot {
    /// Determines whether the unacknowledged operation happened. [`check`](Self::check) detects any
    /// state in between.
    pub(super) async fn settle(&mut self, client: &Client) {
        if let Some(verb) = self.pending.take() {
            let has_happened = verb.has_happened(client, self).await;
            self.settle_processes(client, &verb).await;
            if has_happened {
                verb.record(self);
            }
            verb.follow_up(client, self).await;
        }
        for expected in self.sessions.values_mut() {
            expected.end_processes(HOST_RESTARTED);
        }
    }

    /// Processes that were being ended at the kill may have exited before it or through it.
    async fn settle_processes(&mut self, client: &Client, verb: &Verb) {
        let Some(reason) = verb.ends_processes() else {
            return;
        };
        let expected = self.sessions.get_mut(verb.id()).unwrap();
        let found = processes(client, verb.id()).await;
        for ((name, ended), (_, how)) in expected.processes.iter_mut().zip(found) {
            if ended.is_none() {
                let how = how.unwrap_or_else(|| panic!("{name} runs although its host was killed"));
                assert!(
                    how == reason || how == HOST_RESTARTED,
                    "{name} has ended: {how}"
                );
                *ended = Some(how);
            }
        }
    }

    /// Makes a session active and runs a command in it.
    pub(super) async fn bring_back(&mut self, client: &Client, id: &SessionId) {
        let expected = self.sessions.get_mut(id).unwrap();
        match expected.state {
            SessionState::Paused => client.resume_session(id).await.map(drop).unwrap(),
            SessionState::Hibernated => client.wake_session(id).await.map(drop).unwrap(),
            _ => {}
        }
        expected.state = SessionState::Active;
        run(client, id, "true").await.unwrap();
    }

    /// Compares the sessions of this slot with the host; unused ones only with `all`.
    pub(super) async fn check(
        &mut self,
        client: &Client,
        observed: &BTreeMap<SessionId, SessionInfo>,
        all: bool,
    ) {
        for (id, expected) in &self.sessions {
            let info = observed
                .get(id)
                .unwrap_or_else(|| panic!("{id} was acknowledged and is gone"));
            assert_eq!(info.state, expected.state, "state of {id}");
            assert_eq!(info.labels, expected.labels, "labels of {id}");
            assert_eq!(info.turn_count, expected.turns, "turns of {id}");
            assert_eq!(
                info.snapshot_count,
                expected.snapshots.len() as u64,
                "snapshots of {id}"
            );
            if all || self.touched.contains(id) {
                let names: Vec<&String> = expected.snapshots.iter().map(|(name, _)| name).collect();
                assert_eq!(
                    snapshot_names(client, id).await.iter().collect::<Vec<_>>(),
                    names,
                    "snapshots of {id}"
                );
                assert_eq!(
                    processes(client, id).await,
                    expected.processes,
                    "processes of {id}"
                );
                // The files of a hibernated session are checked when it is active again.
                if expected.state != SessionState::Hibernated {
                    assert_eq!(
                        contents(client, id).await,
                        expected.contents,
                        "contents of {id}"
                    );
                }
            }
        }
        self.touched.clear();
    }
}
