//! Intents: what the host was about to do, written before it does it.

use jiff::Timestamp;
use sandbar_core::{LaterSnapshots, Result, SessionId, SnapshotName};
use serde::{Deserialize, Serialize};

use super::{Database, StateStore, from_json, to_json};

/// Something that takes more than one step. The format is kept from version to version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Intent {
    /// Undone when found: nobody was told that these exist.
    Create { sessions: Vec<SessionId> },
    /// Undone when found.
    Snapshot { session: SessionId, name: SnapshotName },
    /// Finished when found.
    Rollback { session: SessionId, name: SnapshotName, keep_later: bool },
    /// Finished when found.
    DeleteSnapshot { session: SessionId, name: SnapshotName },
    /// Finished when found.
    Destroy { session: SessionId },
    /// Undone when found: the volume is still the session.
    Hibernate { session: SessionId, pack: String },
    /// Finished when found: a hibernated session has no volume here, neither an old one nor one half unpacked.
    FreeVolume { session: SessionId },
    /// Undone when found: nobody was told that this base exists.
    SaveBase { volume: SessionId },
    /// Finished when found, or by the janitor: the base that was kept as this volume is no more.
    DropBase { volume: SessionId },
    /// Finished by the janitor: no session is in this pack.
    DeletePack { pack: String },
}

impl Intent {
    pub(crate) fn rollback(session: &SessionId, name: &SnapshotName, later: LaterSnapshots) -> Self {
        Self::Rollback { session: session.clone(), name: name.clone(), keep_later: later == LaterSnapshots::Keep }
    }

    /// Writes the intent down inside a transaction, as what is left of another one.
    pub(crate) fn insert(&self, database: &Database) -> Result<IntentId> {
        let sql = "INSERT INTO intent (what, made) VALUES (?1, ?2) RETURNING id";
        let id = database.query_optional(sql, (to_json(self)?, Timestamp::now().as_second()), |row| row.get(0))?;
        id.map(IntentId).ok_or_else(|| sandbar_core::Error::internal("the state database gave an intent no number"))
    }
}

/// Names an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntentId(i64);

impl StateStore {
    /// Writes an intent down. Nothing of it may happen before this returns.
    pub(crate) fn intend(&self, intent: &Intent) -> Result<IntentId> {
        self.with(|database| intent.insert(database))
    }

    /// Clears an intent whose operation was undone. One that succeeded is cleared with its result, by
    /// [`clear`](IntentId::clear).
    pub(crate) fn forget(&self, intent: IntentId) -> Result<()> {
        self.with(|database| intent.clear(database))
    }

    /// Intents that are there, oldest first.
    pub(crate) fn intents(&self) -> Result<Vec<(IntentId, Intent)>> {
        self.with(|database| {
            database.query("SELECT id, what FROM intent ORDER BY id", [], |row| {
                Ok((IntentId(row.get(0)?), from_json(&row.text(1)?)?))
            })
        })
    }
}

impl IntentId {
    /// Clears the intent inside a transaction.
    pub(crate) fn clear(self, database: &Database) -> Result<()> {
        database.execute("DELETE FROM intent WHERE id = ?1", [self.0]).map(|_| ())
    }
}
