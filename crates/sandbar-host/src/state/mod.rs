//! What the host remembers: sessions, snapshots, intents, answers of tool calls and audit logs, in SQLite.

mod audit;
mod intents;
mod processes;
mod records;
mod schema;
mod tool_calls;

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use sandbar_core::{Error, Result};
use sandbar_sqlite::{Database, Value};

pub(crate) use intents::{Intent, IntentId};
pub(crate) use records::{
    SessionRecord, delete_session, delete_snapshot, insert_snapshot, set_head, set_pack, set_turns,
};

/// The state database. Calls are short and may be made from any thread.
#[derive(Debug)]
pub(crate) struct StateStore {
    database: Mutex<Database>,
}

impl StateStore {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut database = Database::open(path)?;
        schema::migrate(&mut database)?;
        Ok(Self { database: Mutex::new(database) })
    }

    /// Runs `body` in one transaction.
    pub(crate) fn transaction<T>(&self, body: impl FnOnce(&mut Database) -> Result<T>) -> Result<T> {
        self.with(|database| database.transaction(body))
    }

    fn with<T>(&self, body: impl FnOnce(&mut Database) -> Result<T>) -> Result<T> {
        body(&mut self.database.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// JSON for a column.
fn to_json<T: serde::Serialize>(value: &T) -> Result<Value> {
    serde_json::to_string(value)
        .map(Value::Text)
        .map_err(|error| Error::internal("encode a column of the state database").with_source(error))
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Error::internal("decode a column of the state database").with_source(error))
}
