//! Intents: journal entries that are written before an operation of several steps.

use jiff::Timestamp;
use sandbar_core::{LaterSnapshots, Result, SessionId, SnapshotName};
use serde::{Deserialize, Serialize};

use super::{Database, StateStore, from_json, to_json};

/// An operation of more than one step. Says what recovery does when it finds one. The serialised
/// format must stay compatible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Intent {
    /// Undone: the sessions were not acknowledged.
    Create { sessions: Vec<SessionId> },
    /// Undone.
    Snapshot {
        session: SessionId,
        name: SnapshotName,
    },
    /// Finished.
    Rollback {
        session: SessionId,
        name: SnapshotName,
        keep_later: bool,
    },
    /// Finished.
    DeleteSnapshot {
        session: SessionId,
        name: SnapshotName,
    },
    /// Finished.
    Destroy { session: SessionId },
    /// Undone: the volume is still authoritative.
    Hibernate { session: SessionId, pack: String },
    /// Finished, by recovery or the janitor: a hibernated session keeps no volume, neither the old
    /// one nor a half unpacked one.
    FreeVolume { session: SessionId },
    /// Undone: the base was not acknowledged.
    SaveBase { volume: SessionId },
    /// Finished, by recovery or the janitor: the base of this volume was deleted.
    DropBase { volume: SessionId },
    /// Finished by the janitor: no session needs this pack.
    DeletePack { pack: String },
}

impl Intent {
    pub(crate) fn rollback(
        session: &SessionId,
        name: &SnapshotName,
        later: LaterSnapshots,
    ) -> Self {
        Self::Rollback {
            session: session.clone(),
            name: name.clone(),
            keep_later: later == LaterSnapshots::Keep,
        }
    }

    /// Inserts the intent inside a transaction, as the remaining step of another one.
    pub(crate) fn insert(&self, database: &Database) -> Result<IntentId> {
        let sql = "INSERT INTO intent (what, made) VALUES (?1, ?2) RETURNING id";
        let id = database.query_optional(
            sql,
            (to_json(self)?, Timestamp::now().as_second()),
            |row| row.get(0),
        )?;
        id.map(IntentId).ok_or_else(|| {
            sandbar_core::Error::internal("state database returned no id for an intent")
        })
    }
}

/// Id of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntentId(i64);

impl StateStore {
    /// Inserts an intent. The operation must not begin before this returns.
    pub(crate) fn intend(&self, intent: &Intent) -> Result<IntentId> {
        self.with(|database| intent.insert(database))
    }

    /// Deletes an intent whose operation was undone. That of a successful one is deleted in the
    /// transaction with its result, by [`clear`](IntentId::clear).
    pub(crate) fn forget(&self, intent: IntentId) -> Result<()> {
        self.with(|database| intent.clear(database))
    }

    /// Lists the intents, oldest first.
    pub(crate) fn intents(&self) -> Result<Vec<(IntentId, Intent)>> {
        self.with(|database| {
            database.query("SELECT id, what FROM intent ORDER BY id", [], |row| {
                Ok((IntentId(row.get(0)?), from_json(&row.text(1)?)?))
            })
        })
    }
}

impl IntentId {
    /// Deletes the intent inside a transaction.
    pub(crate) fn clear(self, database: &Database) -> Result<()> {
        database
            .execute("DELETE FROM intent WHERE id = ?1", [self.0])
            .map(|_| ())
    }
}
