//! The tables, and how an older database becomes a current one.

use sandbar_core::{Error, ErrorCode, Result};
use sandbar_sqlite::Database;

/// Each step takes a database from the version of its index to the next. Steps are never changed, only added.
const STEPS: [&str; 1] = ["
    CREATE TABLE session (
        id TEXT PRIMARY KEY,
        state TEXT NOT NULL,
        base TEXT NOT NULL,
        labels TEXT NOT NULL,
        resources TEXT NOT NULL,
        env TEXT NOT NULL,
        network TEXT,
        quota INTEGER,
        created INTEGER NOT NULL,
        expires INTEGER,
        turns INTEGER NOT NULL,
        parent_session TEXT,
        parent_snapshot TEXT,
        head_snapshot TEXT
    ) STRICT;
    CREATE INDEX session_by_age ON session (created, id);
    CREATE TABLE snapshot (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        created INTEGER NOT NULL,
        parent TEXT,
        UNIQUE (session, name)
    ) STRICT;
    CREATE TABLE intent (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        what TEXT NOT NULL,
        made INTEGER NOT NULL
    ) STRICT;
    PRAGMA user_version = 1;
"];

/// Brings the tables up to date. A database from a newer program is refused.
pub(super) fn migrate(database: &mut Database) -> Result<()> {
    let version = database.query_optional("PRAGMA user_version", &[], |row| row.integer(0))?.unwrap_or(0);
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    if version > STEPS.len() {
        return Err(Error::new(
            ErrorCode::InvalidState,
            format!("the state database has version {version}, this program knows {}", STEPS.len()),
        )
        .with_field("data_dir")
        .with_hint("start the version of sandbar that wrote it, or use another data directory"));
    }
    for step in &STEPS[version..] {
        database.transaction(|database| database.execute_batch(step))?;
    }
    Ok(())
}
