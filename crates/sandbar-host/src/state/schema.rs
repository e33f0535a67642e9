//! The tables, and the migration of older databases.

use sandbar_core::{Error, ErrorCode, Result};

use super::Database;

/// Migration steps. Each takes a database from the version of its index to the next. Steps are
/// never changed, only added.
const STEPS: [&str; 8] = [
    "
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
",
    "
    CREATE TABLE tool_call (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        call TEXT NOT NULL,
        tool TEXT NOT NULL,
        made INTEGER NOT NULL,
        size INTEGER NOT NULL,
        answer TEXT NOT NULL,
        UNIQUE (session, call)
    ) STRICT;
    CREATE INDEX tool_call_by_age ON tool_call (session, number, size);
    PRAGMA user_version = 2;
",
    "
    ALTER TABLE session ADD COLUMN idle_timeout INTEGER;
    ALTER TABLE session ADD COLUMN pack TEXT;
    CREATE TABLE process (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        id TEXT NOT NULL,
        spec TEXT NOT NULL,
        state TEXT NOT NULL,
        UNIQUE (session, id)
    ) STRICT;
    CREATE TABLE audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL,
        made INTEGER NOT NULL,
        who TEXT NOT NULL,
        what TEXT NOT NULL,
        outcome TEXT NOT NULL,
        detail TEXT NOT NULL,
        chain TEXT NOT NULL
    ) STRICT;
    CREATE INDEX audit_by_session ON audit (session, number);
    PRAGMA user_version = 3;
",
    "
    CREATE TABLE secret (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL,
        changed INTEGER NOT NULL
    ) STRICT;
    PRAGMA user_version = 4;
",
    "
    CREATE TABLE token (
        name TEXT PRIMARY KEY,
        hash TEXT NOT NULL UNIQUE,
        created INTEGER NOT NULL,
        expires INTEGER
    ) STRICT;
    CREATE TABLE token_scope (
        token TEXT NOT NULL REFERENCES token (name) ON DELETE CASCADE,
        scope TEXT NOT NULL,
        session TEXT REFERENCES session (id) ON DELETE CASCADE,
        PRIMARY KEY (token, scope)
    ) STRICT;
    CREATE INDEX token_scope_by_session ON token_scope (session);
    CREATE TRIGGER token_without_scope AFTER DELETE ON token_scope BEGIN
        DELETE FROM token WHERE name = OLD.token
            AND NOT EXISTS (SELECT 1 FROM token_scope WHERE token = OLD.token);
    END;
    PRAGMA user_version = 5;
",
    "
    ALTER TABLE session ADD COLUMN on_expiry TEXT NOT NULL DEFAULT 'destroy';
    CREATE TABLE note (
        session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (session, key)
    ) STRICT;
    CREATE INDEX note_by_key ON note (key, session);
    PRAGMA user_version = 6;
",
    "
    CREATE TABLE saved_base (
        name TEXT PRIMARY KEY,
        volume TEXT NOT NULL UNIQUE,
        ground TEXT NOT NULL,
        created INTEGER NOT NULL,
        size INTEGER NOT NULL,
        note TEXT
    ) STRICT;
    ALTER TABLE session ADD COLUMN ground TEXT;
    PRAGMA user_version = 7;
",
    "
    ALTER TABLE session ADD COLUMN root_rights TEXT NOT NULL DEFAULT 'bare';
    PRAGMA user_version = 8;
",
];

/// Migrates the tables to the current version. Refuses a database of a newer program.
pub(super) fn migrate(database: &Database) -> Result<()> {
    let version = database
        .query_optional("PRAGMA user_version", [], |row| row.get::<i64>(0))?
        .unwrap_or(0);
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    if version > STEPS.len() {
        return Err(Error::new(
            ErrorCode::InvalidState,
            format!(
                "state database has version {version}, but this program supports {}",
                STEPS.len()
            ),
        )
        .with_field("data_dir")
        .with_hint("start the version of sandbar that wrote it, or use another data directory"));
    }
    for step in &STEPS[version..] {
        database.transaction(|database| database.execute_batch(step))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_of_an_older_version_keeps_its_rows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.db");
        for version in 1..STEPS.len() {
            let _ = std::fs::remove_file(&path);
            let old = Database::open(&path).unwrap();
            for step in &STEPS[..version] {
                old.execute_batch(step).unwrap();
            }
            old.execute("INSERT INTO intent (what, made) VALUES ('{}', 7)", [])
                .unwrap();
            drop(old);
            let database = Database::open(&path).unwrap();
            migrate(&database).unwrap();
            let now = database
                .query_optional("PRAGMA user_version", [], |row| row.get(0))
                .unwrap();
            assert_eq!(now, i64::try_from(STEPS.len()).ok());
            let kept = database
                .query_optional("SELECT made FROM intent", [], |row| row.get(0))
                .unwrap();
            assert_eq!(kept, Some(7_i64));
            for sql in [
                "SELECT number FROM tool_call",
                "SELECT number FROM process",
                "SELECT number FROM audit",
                "SELECT name FROM secret",
                "SELECT name FROM token",
                "SELECT token FROM token_scope",
                "SELECT on_expiry FROM session",
                "SELECT value FROM note",
                "SELECT ground FROM session",
                "SELECT volume FROM saved_base",
            ] {
                database.query(sql, [], |_| Ok(())).unwrap();
            }
        }
    }

    #[test]
    fn database_of_a_newer_version_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("state.db")).unwrap();
        database
            .execute_batch("PRAGMA user_version = 1000")
            .unwrap();
        assert_eq!(
            migrate(&database).unwrap_err().code(),
            ErrorCode::InvalidState
        );
    }
}
