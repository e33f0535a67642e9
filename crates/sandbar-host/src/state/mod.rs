//! What the host remembers: sessions, snapshots, notes, saved bases, intents, answers of tool calls, secrets, hashes of tokens and audit logs, in SQLite.

mod audit;
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
    fs::{self, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    sync::{Mutex, PoisonError},
};

use sandbar_core::{Error, Result};
use sandbar_sqlite::{Database, Value};

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
        make_private(path)?;
        let mut database = Database::open(path)?;
        // What is deleted, a secret for example, is overwritten.
        database.execute_batch("PRAGMA secure_delete = ON")?;
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

/// Makes the file when it is missing, and has nobody but its owner read it. Whatever SQLite puts beside it is like it.
fn make_private(path: &Path) -> Result<()> {
    let failed = |error| Error::io(format!("open the state database `{}`", path.display()), error);
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
    file.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
    // What a host that was killed left there, before secrets were kept.
    for suffix in ["-wal", "-shm"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(suffix);
        match fs::set_permissions(&beside, Permissions::from_mode(0o600)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    Ok(())
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
