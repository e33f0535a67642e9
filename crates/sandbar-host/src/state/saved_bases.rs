//! Rows of saved bases.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sandbar_core::{BaseName, ByteCount, Result, SessionId};
use serde::{Deserialize, Serialize};

use super::{
    Database, StateStore, from_json,
    records::{integer, nanoseconds, time},
    to_json,
};

/// The imported base below a saved base, and below the sessions created from it. The serialised
/// format must stay compatible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ground {
    /// The imported base.
    pub(crate) base: BaseName,
    /// Environment variables that the saved base adds.
    pub(crate) env: BTreeMap<String, String>,
}

/// The record of a saved base, without its note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedBaseRecord {
    pub(crate) name: BaseName,
    /// The volume of the base. No session uses it.
    pub(crate) volume: SessionId,
    pub(crate) ground: Ground,
    pub(crate) created: Timestamp,
    pub(crate) size: ByteCount,
}

impl SavedBaseRecord {
    /// Inserts the base, inside a transaction.
    pub(crate) fn insert(&self, note: Option<&str>, database: &Database) -> Result<()> {
        let sql = "INSERT INTO saved_base (name, volume, ground, created, size, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (ground, created, size) = (
            to_json(&self.ground)?,
            nanoseconds(self.created),
            integer(self.size.get()),
        );
        let values = (
            self.name.as_str(),
            self.volume.as_str(),
            ground,
            created,
            size,
            note,
        );
        database.execute(sql, values).map(|_| ())
    }

    /// Deletes the base, inside a transaction.
    pub(crate) fn delete(&self, database: &Database) -> Result<()> {
        database
            .execute(
                "DELETE FROM saved_base WHERE volume = ?1",
                [self.volume.as_str()],
            )
            .map(|_| ())
    }
}

impl StateStore {
    /// Lists every saved base, by name.
    pub(crate) fn saved_bases(&self) -> Result<Vec<SavedBaseRecord>> {
        let sql = "SELECT name, volume, ground, created, size FROM saved_base ORDER BY name";
        self.with(|database| {
            database.query(sql, [], |row| {
                Ok(SavedBaseRecord {
                    name: BaseName::new(row.text(0)?)?,
                    volume: SessionId::new(row.text(1)?)?,
                    ground: from_json(&row.text(2)?)?,
                    created: time(row.get(3)?)?,
                    size: ByteCount(u64::try_from(row.get::<i64>(4)?).unwrap_or(0)),
                })
            })
        })
    }

    /// Returns the note of a saved base, if it has one.
    pub(crate) fn base_note(&self, name: &BaseName) -> Result<Option<String>> {
        let sql = "SELECT note FROM saved_base WHERE name = ?1";
        let note = self.with(|database| {
            database.query_optional(sql, [name.as_str()], |row| row.optional_text(0))
        })?;
        Ok(note.flatten())
    }

    /// Sets the note of a saved base; returns whether the base exists.
    pub(crate) fn set_base_note(&self, name: &BaseName, note: Option<&str>) -> Result<bool> {
        let sql = "UPDATE saved_base SET note = ?2 WHERE name = ?1";
        self.with(|database| Ok(database.execute(sql, (name.as_str(), note))? > 0))
    }
}
