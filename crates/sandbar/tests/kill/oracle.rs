//! Record of what the host has acknowledged.

use std::{collections::BTreeMap, path::Path};

use sandbar_client::Client;
use sandbar_core::{SessionFilter, SessionId, SessionState, WriteOptions};

/// Expected state of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Content of `/workspace/f`.
    pub(crate) content: String,
    /// Content of the file at each snapshot, oldest first.
    pub(crate) snapshots: Vec<(String, String)>,
}

/// Expected state of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) sessions: BTreeMap<SessionId, Expected>,
}

const FILE: &str = "/workspace/f";

pub(crate) async fn write(client: &Client, id: &SessionId, content: &str) {
    let options = WriteOptions {
        create_dirs: true,
        ..WriteOptions::default()
    };
    let source = std::io::Cursor::new(content.as_bytes().to_vec());
    client
        .write_file(id, Path::new(FILE), options, source)
        .await
        .unwrap();
}

pub(crate) async fn read(client: &Client, id: &SessionId) -> String {
    let mut content = Vec::new();
    match client.read_file(id, Path::new(FILE), &mut content).await {
        Ok(_) => String::from_utf8(content).unwrap(),
        Err(error) => {
            assert_eq!(
                error.code(),
                sandbar_core::ErrorCode::FileNotFound,
                "{}",
                error.chain()
            );
            String::new()
        }
    }
}

/// Returns all sessions of the host with their snapshots.
pub(crate) async fn observed(client: &Client) -> BTreeMap<SessionId, Vec<String>> {
    let mut sessions = BTreeMap::new();
    for session in client
        .all_sessions(&SessionFilter::default())
        .await
        .unwrap()
    {
        assert_eq!(
            session.state,
            SessionState::Active,
            "{} is not usable",
            session.id
        );
        let snapshots = client.list_snapshots(&session.id).await.unwrap();
        assert_eq!(session.snapshot_count, snapshots.len() as u64);
        sessions.insert(
            session.id,
            snapshots
                .into_iter()
                .map(|snapshot| snapshot.name.to_string())
                .collect(),
        );
    }
    sessions
}

impl Oracle {
    /// Checks all sessions but those in `open`, whose operation was not acknowledged.
    pub(crate) async fn check(&self, client: &Client, open: &[SessionId]) {
        let observed = observed(client).await;
        for (id, expected) in self.sessions.iter().filter(|(id, _)| !open.contains(id)) {
            let snapshots = observed
                .get(id)
                .unwrap_or_else(|| panic!("{id} was acknowledged and is gone"));
            let names: Vec<&String> = expected.snapshots.iter().map(|(name, _)| name).collect();
            assert_eq!(
                snapshots.iter().collect::<Vec<_>>(),
                names,
                "snapshots of {id}"
            );
            assert_eq!(read(client, id).await, expected.content, "content of {id}");
        }
        for id in observed.keys().filter(|id| !open.contains(id)) {
            assert!(self.sessions.contains_key(id), "{id} came from nowhere");
        }
    }
}
