//! [`StateStore`]: the open state database.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use sandbar_core::{Error, Result};

use super::{database::Database, schema};

/// The state database. Calls are short and may be made from any thread.
#[derive(Debug)]
pub(crate) struct StateStore {
    database: Mutex<Database>,
}

impl StateStore {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let database = Database::open(path)?;
        schema::migrate(&database)?;
        Ok(Self {
            database: Mutex::new(database),
        })
    }

    /// Runs `body` in one transaction.
    pub(crate) fn transaction<T>(&self, body: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        self.with(|database| database.transaction(body))
    }

    pub(super) fn with<T>(&self, body: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        body(&self.database.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Encodes a column as JSON.
pub(super) fn to_json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| {
        Error::internal("encode a column of the state database").with_source(error)
    })
}

pub(super) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        Error::internal("decode a column of the state database").with_source(error)
    })
}
