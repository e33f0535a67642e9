//! What the host remembers: sessions, snapshots, notes, saved bases, intents, answers of tool calls, secrets, hashes of tokens and audit logs, in SQLite.

mod audit;
mod database;
mod intents;
mod notes;
mod processes;
mod records;
mod saved_bases;
mod schema;
mod secrets;
mod tokens;
mod tool_calls;

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use sandbar_core::{Error, Result};

use database::{Database, Row};
pub(crate) use intents::{Intent, IntentId};
pub(crate) use records::{
    SessionRecord, delete_session, delete_snapshot, insert_snapshot, set_head, set_pack, set_turns,
};

pub(crate) use saved_bases::{Ground, SavedBaseRecord};

/// The state database. Calls are short and may be made from any thread.
#[derive(Debug)]
pub(crate) struct StateStore {
    database: Mutex<Database>,
}

impl StateStore {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let database = Database::open(path)?;
        schema::migrate(&database)?;
        Ok(Self { database: Mutex::new(database) })
    }

    /// Runs `body` in one transaction.
    pub(crate) fn transaction<T>(&self, body: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        self.with(|database| database.transaction(body))
    }

    fn with<T>(&self, body: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        body(&self.database.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// JSON for a column.
fn to_json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::internal("encode a column of the state database").with_source(error))
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Error::internal("decode a column of the state database").with_source(error))
}
