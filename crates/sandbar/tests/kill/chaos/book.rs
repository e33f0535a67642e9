//! The oracle: everything the host acknowledged, and what was under way when it died.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use sandbar_client::Client;
use sandbar_core::{ErrorCode, Labels, SessionFilter, SessionId, SessionInfo, SessionState};

use super::verb::Verb;

/// The files of a session that change.
pub(super) const FILES: [&str; 2] = ["/workspace/f", "/workspace/log"];

/// Contents of [`FILES`]; empty when a file is not there.
pub(super) type Contents = [String; 2];

/// A session as it must be.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    pub(super) labels: Labels,
    pub(super) contents: Contents,
    /// Names, with the contents they hold, oldest first.
    pub(super) snapshots: Vec<(String, Contents)>,
    pub(super) turns: u64,
    /// Tool calls that were answered, and their answers.
    pub(super) answers: Vec<(String, String)>,
}

/// What one client works on: a session, and the forks it made of it. Nobody else touches them.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) sessions: BTreeMap<SessionId, Expected>,
    /// What was asked for and not answered yet.
    pub(super) pending: Option<Verb>,
    /// Sessions somebody used since they were last looked at.
    pub(super) touched: BTreeSet<SessionId>,
    /// Makes names that were never used before.
    pub(super) names: u64,
    /// How many verbs were acknowledged.
    pub(super) acknowledged: u64,
}

pub(super) async fn contents(client: &Client, id: &SessionId) -> Contents {
    let mut contents = Contents::default();
    for (content, file) in contents.iter_mut().zip(FILES) {
        let mut bytes = Vec::new();
        match client.read_file(id, Path::new(file), &mut bytes).await {
            Ok(_) => *content = String::from_utf8(bytes).unwrap(),
            Err(error) => assert_eq!(error.code(), ErrorCode::FileNotFound, "{id}: {}", error.chain()),
        }
    }
    contents
}

pub(super) async fn snapshot_names(client: &Client, id: &SessionId) -> Vec<String> {
    let snapshots = client.list_snapshots(id).await.unwrap();
    snapshots.into_iter().map(|snapshot| snapshot.name.to_string()).collect()
}

/// Every session there is.
pub(super) async fn observed(client: &Client) -> BTreeMap<SessionId, SessionInfo> {
    let sessions = client.all_sessions(&SessionFilter::default()).await.unwrap();
    sessions.into_iter().map(|session| (session.id.clone(), session)).collect()
}

impl Slot {
    /// Finds out whether what was under way happened. It did, or it did not: [`check`](Self::check) sees anything between.
    pub(super) async fn settle(&mut self, client: &Client) {
        let Some(verb) = self.pending.take() else { return };
        if verb.has_happened(client, self).await {
            verb.note(self);
        }
        verb.follow_up(client, self).await;
    }

    /// Compares the sessions of this slot with what the host says; those that were not used lately only when `all`.
    pub(super) async fn check(&mut self, client: &Client, observed: &BTreeMap<SessionId, SessionInfo>, all: bool) {
        for (id, expected) in &self.sessions {
            let info = observed.get(id).unwrap_or_else(|| panic!("{id} was acknowledged and is gone"));
            assert_eq!(info.state, SessionState::Active, "{id}");
            assert_eq!(info.labels, expected.labels, "labels of {id}");
            assert_eq!(info.turn_count, expected.turns, "turns of {id}");
            assert_eq!(info.snapshot_count, expected.snapshots.len() as u64, "snapshots of {id}");
            if all || self.touched.contains(id) {
                let names: Vec<&String> = expected.snapshots.iter().map(|(name, _)| name).collect();
                assert_eq!(snapshot_names(client, id).await.iter().collect::<Vec<_>>(), names, "snapshots of {id}");
                assert_eq!(contents(client, id).await, expected.contents, "contents of {id}");
            }
        }
        self.touched.clear();
    }
}
