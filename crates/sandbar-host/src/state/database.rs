//! One connection to the state database, in write-ahead mode.

use std::{
    fs::{self, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, Params, Transaction, TransactionBehavior, types::FromSql};
use sandbar_core::{Error, ErrorCode, Result};

/// Wait for another process that holds the lock on the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// More than the host has statements, so that each is prepared once.
const MAX_PREPARED_STATEMENTS: usize = 128;

/// `synchronous = NORMAL`: committed transactions survive `kill -9`; a power cut may lose the last
/// ones, but never corrupts the file. `secure_delete`: deleted content, a secret for example, is
/// overwritten.
const PRAGMAS: &str =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;
    PRAGMA wal_autocheckpoint = 1000; PRAGMA secure_delete = ON;";

/// The connection, with its prepared statements.
#[derive(Debug)]
pub(crate) struct Database {
    connection: Connection,
    path: PathBuf,
}

impl Database {
    /// Opens or creates the database at `path`. Only its owner can read it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        make_private(path)?;
        let connection = Connection::open(path).map_err(|error| failure(path, "open", error))?;
        let database = Self {
            connection,
            path: path.to_owned(),
        };
        database
            .connection
            .set_prepared_statement_cache_capacity(MAX_PREPARED_STATEMENTS);
        database
            .connection
            .busy_timeout(BUSY_TIMEOUT)
            .map_err(|error| database.failure(error))?;
        database.execute_batch(PRAGMAS)?;
        Ok(database)
    }

    /// Runs statements without parameters, separated by `;`.
    pub(super) fn execute_batch(&self, sql: &str) -> Result<()> {
        self.connection
            .execute_batch(sql)
            .map_err(|error| self.failure(error))
    }

    /// Runs a statement that returns no rows; returns how many rows it changed.
    pub(super) fn execute(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        let run = || self.connection.prepare_cached(sql)?.execute(parameters);
        run().map_err(|error| self.failure(error))
    }

    /// Runs a statement and reads each row.
    pub(super) fn query<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let failure = |error| self.failure(error);
        let mut statement = self.connection.prepare_cached(sql).map_err(failure)?;
        let mut rows = statement.query(parameters).map_err(failure)?;
        let mut values = Vec::new();
        while let Some(row) = rows.next().map_err(failure)? {
            values.push(read(&Row(row))?);
        }
        Ok(values)
    }

    /// Runs a statement and reads its first row, if there is one.
    pub(super) fn query_optional<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.query(sql, parameters, read)?.into_iter().next())
    }

    /// Runs `body` in a transaction, which is committed when `body` succeeds and rolled back when
    /// it fails.
    pub(super) fn transaction<T>(&self, body: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let failure = |error| self.failure(error);
        let transaction =
            Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                .map_err(failure)?;
        let value = body(self)?;
        transaction.commit().map_err(failure)?;
        Ok(value)
    }

    fn failure(&self, error: rusqlite::Error) -> Error {
        failure(&self.path, "run a statement on", error)
    }
}

/// A row of a result. Columns are counted from 0.
#[derive(Debug)]
pub(super) struct Row<'a>(&'a rusqlite::Row<'a>);

impl Row<'_> {
    pub(super) fn get<T: FromSql>(&self, column: usize) -> Result<T> {
        self.0.get(column).map_err(|error| {
            Error::internal("read a column of the state database").with_source(error)
        })
    }

    pub(super) fn text(&self, column: usize) -> Result<String> {
        self.get(column)
    }

    pub(super) fn optional_text(&self, column: usize) -> Result<Option<String>> {
        self.get(column)
    }
}

fn failure(path: &Path, what: &str, error: rusqlite::Error) -> Error {
    let code = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => ErrorCode::StorageFull,
        // SQLite reports a write without space as an I/O error in some places.
        Some(rusqlite::ErrorCode::SystemIoFailure) if disk_is_full(path) => ErrorCode::StorageFull,
        Some(rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::CannotOpen) => {
            ErrorCode::PermissionDenied
        }
        Some(rusqlite::ErrorCode::ConstraintViolation) => ErrorCode::InvalidState,
        _ => ErrorCode::Internal,
    };
    Error::new(
        code,
        format!("{what} the state database `{}`", path.display()),
    )
    .with_source(error)
}

fn disk_is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path.parent().unwrap_or(path)).is_ok_and(|space| space.f_bavail == 0)
}

/// Creates the file if it is missing and makes it readable by its owner alone. SQLite gives the
/// files beside it the same mode.
fn make_private(path: &Path) -> Result<()> {
    let failed = |error| {
        Error::io(
            format!("open the state database `{}`", path.display()),
            error,
        )
    };
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.set_permissions(Permissions::from_mode(0o600))
        .map_err(failed)?;
    // A killed host of a version before secrets existed may have left these with another mode.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, Database) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("state.db")).unwrap();
        database
            .execute_batch(
                "CREATE TABLE thing (id TEXT PRIMARY KEY, size INTEGER, note TEXT) STRICT",
            )
            .unwrap();
        (directory, database)
    }

    fn count(database: &Database) -> i64 {
        database
            .query_optional("SELECT count(*) FROM thing", [], |row| row.get(0))
            .unwrap()
            .unwrap()
    }

    #[test]
    fn values_are_read_as_written() {
        let (_directory, database) = scratch();
        let sql = "INSERT INTO thing (id, size, note) VALUES (?1, ?2, ?3)";
        assert_eq!(
            database
                .execute(sql, ("a", i64::MIN, None::<&str>))
                .unwrap(),
            1
        );
        database.execute(sql, ("ü\n", None::<i64>, "")).unwrap();
        let rows = database
            .query("SELECT id, size, note FROM thing ORDER BY id", [], |row| {
                Ok((row.text(0)?, row.get(1)?, row.optional_text(2)?))
            })
            .unwrap();
        assert_eq!(
            rows,
            [
                ("a".into(), Some(i64::MIN), None),
                ("ü\n".into(), None, Some(String::new()))
            ]
        );
    }

    #[test]
    fn column_of_another_type_is_an_error() {
        let (_directory, database) = scratch();
        let read = |row: &Row<'_>| row.get::<i64>(0);
        let error = database.query("SELECT 'text'", [], read).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Internal);
        assert_eq!(
            database.query("SELECT NULL", [], read).unwrap_err().code(),
            ErrorCode::Internal
        );
        assert_eq!(count(&database), 0);
    }

    #[test]
    fn failed_transaction_changes_nothing() {
        let (_directory, database) = scratch();
        let outcome = database.transaction(|database| {
            database.execute("INSERT INTO thing (id) VALUES ('kept?')", [])?;
            Err::<(), _>(Error::internal("no"))
        });
        assert!(outcome.is_err());
        assert_eq!(count(&database), 0);
        database
            .transaction(|database| database.execute("INSERT INTO thing (id) VALUES ('kept')", []))
            .unwrap();
        assert_eq!(count(&database), 1);
    }

    #[test]
    fn broken_constraint_keeps_the_connection_usable() {
        let (_directory, database) = scratch();
        database
            .execute("INSERT INTO thing (id) VALUES ('twice')", [])
            .unwrap();
        let error = database
            .execute("INSERT INTO thing (id) VALUES ('twice')", [])
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        assert_eq!(count(&database), 1);
    }

    #[test]
    fn committed_rows_survive_reopening() {
        let (directory, database) = scratch();
        database
            .execute("INSERT INTO thing (id, size) VALUES ('kept', 7)", [])
            .unwrap();
        drop(database);
        let database = Database::open(&directory.path().join("state.db")).unwrap();
        assert_eq!(count(&database), 1);
    }

    #[test]
    fn error_names_a_path_that_cannot_be_opened() {
        let directory = tempfile::tempdir().unwrap();
        let error = Database::open(directory.path()).unwrap_err();
        assert!(
            error.message().contains(directory.path().to_str().unwrap()),
            "{error}"
        );
        let error = Connection::open(Path::new("/var/tmp/no-such-directory/state.db")).unwrap_err();
        let error = failure(
            Path::new("/var/tmp/no-such-directory/state.db"),
            "open",
            error,
        );
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert!(error.message().contains("no-such-directory"));
    }

    #[test]
    fn full_database_reports_full_storage() {
        let (_directory, database) = scratch();
        database.execute_batch("PRAGMA max_page_count = 1").unwrap();
        let error = database
            .execute("INSERT INTO thing (id) VALUES (hex(zeroblob(100000)))", [])
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::StorageFull, "{}", error.chain());
        assert_eq!(count(&database), 0);
    }
}
