//! One connection to a database file.

#![expect(unsafe_code, reason = "calls into SQLite")]

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_int},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr::{self, NonNull},
};

use sandbar_core::{Error, ErrorCode, Result};

use crate::{Row, Value, ffi, statement::Statement};

/// How long to wait for another process that has the database locked.
const BUSY_MILLISECONDS: c_int = 5000;

/// A connection with its prepared statements.
#[derive(Debug)]
pub struct Database {
    // Dropped first, as SQLite wants it.
    statements: HashMap<&'static str, Statement>,
    connection: Handle,
    path: PathBuf,
}

#[derive(Debug)]
struct Handle(NonNull<ffi::Connection>);

// SAFETY: the connection is opened in full-mutex mode, and `Database` only ever lends it through `&mut self`.
unsafe impl Send for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the connection is open, and every statement was finalised before.
        unsafe { ffi::sqlite3_close_v2(self.0.as_ptr()) };
    }
}

impl Database {
    /// Opens or makes the database at `path`, in write-ahead mode.
    ///
    /// `synchronous = NORMAL`: what was committed survives `kill -9`; a power cut may take the last commits with it, but
    /// never leaves the file in disorder.
    pub fn open(path: &Path) -> Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| Error::internal(format!("path `{}` holds a NUL", path.display())))?;
        let mut raw = ptr::null_mut();
        let flags = ffi::OPEN_READ_WRITE | ffi::OPEN_CREATE | ffi::OPEN_FULL_MUTEX;
        // SAFETY: `name` is a C string and `raw` a place for the handle; both outlive the call.
        let outcome = unsafe { ffi::sqlite3_open_v2(name.as_ptr(), &raw mut raw, flags, ptr::null()) };
        let Some(connection) = NonNull::new(raw).map(Handle) else {
            return Err(Error::internal("out of memory while opening the state database"));
        };
        let mut database = Self { statements: HashMap::new(), connection, path: path.to_owned() };
        if outcome != ffi::OK {
            return Err(database.failure(outcome, "open"));
        }
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_busy_timeout(database.connection.0.as_ptr(), BUSY_MILLISECONDS) };
        database.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 1000;",
        )?;
        Ok(database)
    }

    /// Runs statements without parameters or results, separated by `;`.
    pub fn execute_batch(&mut self, sql: &str) -> Result<()> {
        let text = CString::new(sql).map_err(|_| Error::internal("a statement holds a NUL"))?;
        // SAFETY: the connection is open and `text` outlives the call; no callback and no message are asked for.
        let outcome = unsafe {
            ffi::sqlite3_exec(self.connection.0.as_ptr(), text.as_ptr(), ptr::null(), ptr::null_mut(), ptr::null_mut())
        };
        if outcome == ffi::OK { Ok(()) } else { Err(self.failure(outcome, "run a statement on")) }
    }

    /// Runs a statement that returns no rows; says how many rows it changed.
    pub fn execute(&mut self, sql: &'static str, parameters: &[Value]) -> Result<u64> {
        self.query(sql, parameters, |_| Ok(()))?;
        // SAFETY: the connection is open.
        let changes = unsafe { ffi::sqlite3_changes64(self.connection.0.as_ptr()) };
        Ok(u64::try_from(changes).unwrap_or(0))
    }

    /// Runs a statement and turns each row into a value.
    pub fn query<T>(
        &mut self,
        sql: &'static str,
        parameters: &[Value],
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.prepare(sql)?;
        let bound = statement.bind(parameters);
        if bound != ffi::OK {
            return Err(self.failure(bound, "bind a parameter of"));
        }
        let mut rows = Vec::new();
        let outcome = loop {
            match statement.step() {
                ffi::ROW => match read(&statement.row()) {
                    Ok(row) => rows.push(row),
                    Err(error) => break Err(error),
                },
                ffi::DONE => break Ok(rows),
                code => break Err(self.failure(code, "run a statement on")),
            }
        };
        // The parameters are not kept beyond this call.
        statement.reset();
        self.statements.insert(sql, statement);
        outcome
    }

    /// The only row, if there is one.
    pub fn query_optional<T>(
        &mut self,
        sql: &'static str,
        parameters: &[Value],
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.query(sql, parameters, read)?.into_iter().next())
    }

    /// Runs `body` in a transaction that is committed when it succeeds and rolled back when it does not.
    pub fn transaction<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.execute("BEGIN IMMEDIATE", &[])?;
        let outcome = body(self).and_then(|value| self.execute("COMMIT", &[]).map(|_| value));
        if outcome.is_err() {
            // SQLite has rolled back by itself after some errors; then there is nothing left to do here.
            let _ = self.execute("ROLLBACK", &[]);
        }
        outcome
    }

    fn prepare(&mut self, sql: &'static str) -> Result<Statement> {
        if let Some(statement) = self.statements.remove(sql) {
            return Ok(statement);
        }
        let length = c_int::try_from(sql.len()).map_err(|_| Error::internal("a statement is too long"))?;
        let mut raw = ptr::null_mut();
        // SAFETY: the connection is open, `sql` has `length` bytes, and `raw` is a place for the handle.
        let outcome = unsafe {
            ffi::sqlite3_prepare_v3(
                self.connection.0.as_ptr(),
                sql.as_ptr().cast(),
                length,
                ffi::PREPARE_PERSISTENT,
                &raw mut raw,
                ptr::null_mut(),
            )
        };
        match NonNull::new(raw) {
            Some(raw) if outcome == ffi::OK => Ok(Statement::new(raw)),
            _ => Err(self.failure(outcome, "prepare a statement on")),
        }
    }

    fn failure(&self, code: c_int, what: &str) -> Error {
        // SAFETY: the connection is open; the message stays valid until the next call on it, and is copied here.
        let message = unsafe {
            let text = ffi::sqlite3_errmsg(self.connection.0.as_ptr());
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        };
        // The low byte is the kind; the rest says more about it.
        let kind = match code & 0xff {
            ffi::FULL => ErrorCode::StorageFull,
            ffi::READ_ONLY | ffi::CANNOT_OPEN => ErrorCode::PermissionDenied,
            ffi::CONSTRAINT => ErrorCode::InvalidState,
            ffi::IO_ERROR if disk_is_full(&self.path) => ErrorCode::StorageFull,
            _ => ErrorCode::Internal,
        };
        Error::new(kind, format!("{what} the state database `{}`: {message}", self.path.display()))
    }
}

/// SQLite reports a write that found no room as an I/O error in some places.
fn disk_is_full(path: &Path) -> bool {
    let Ok(name) = CString::new(path.parent().unwrap_or(path).as_os_str().as_bytes()) else { return false };
    let mut space = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: `name` is a C string and `space` is large enough; it is read only when the call filled it.
    unsafe { libc::statvfs(name.as_ptr(), space.as_mut_ptr()) == 0 && space.assume_init().f_bavail == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, Database) {
        let directory = tempfile::Builder::new().prefix("sandbar-test-").tempdir_in("/var/tmp").unwrap();
        let mut database = Database::open(&directory.path().join("state.db")).unwrap();
        database.execute_batch("CREATE TABLE thing (id TEXT PRIMARY KEY, size INTEGER, note TEXT) STRICT").unwrap();
        (directory, database)
    }

    fn count(database: &mut Database) -> i64 {
        database.query_optional("SELECT count(*) FROM thing", &[], |row| row.integer(0)).unwrap().unwrap()
    }

    #[test]
    fn values_come_back_as_they_went_in() {
        let (_directory, mut database) = scratch();
        let sql = "INSERT INTO thing (id, size, note) VALUES (?1, ?2, ?3)";
        assert_eq!(database.execute(sql, &["a".into(), i64::MIN.into(), Value::Null]).unwrap(), 1);
        database.execute(sql, &["ü\n".into(), Value::Null, "".into()]).unwrap();
        let rows = database
            .query("SELECT id, size, note FROM thing ORDER BY id", &[], |row| {
                Ok((row.text(0)?, row.optional_integer(1)?, row.optional_text(2)?))
            })
            .unwrap();
        assert_eq!(rows, [("a".into(), Some(i64::MIN), None), ("ü\n".into(), None, Some(String::new()))]);
    }

    #[test]
    fn a_transaction_that_fails_changes_nothing() {
        let (_directory, mut database) = scratch();
        let outcome = database.transaction(|database| {
            database.execute("INSERT INTO thing (id) VALUES ('kept?')", &[])?;
            Err::<(), _>(Error::internal("no"))
        });
        assert!(outcome.is_err());
        assert_eq!(count(&mut database), 0);
        database.transaction(|database| database.execute("INSERT INTO thing (id) VALUES ('kept')", &[])).unwrap();
        assert_eq!(count(&mut database), 1);
    }

    #[test]
    fn a_broken_constraint_is_told_and_the_connection_goes_on() {
        let (_directory, mut database) = scratch();
        database.execute("INSERT INTO thing (id) VALUES ('twice')", &[]).unwrap();
        let error = database.execute("INSERT INTO thing (id) VALUES ('twice')", &[]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        assert_eq!(count(&mut database), 1);
    }

    #[test]
    fn what_was_committed_is_there_after_reopening() {
        let (directory, mut database) = scratch();
        database.execute("INSERT INTO thing (id, size) VALUES ('kept', 7)", &[]).unwrap();
        drop(database);
        let mut database = Database::open(&directory.path().join("state.db")).unwrap();
        assert_eq!(count(&mut database), 1);
    }

    #[test]
    fn a_path_that_cannot_be_opened_is_named() {
        let error = Database::open(Path::new("/var/tmp/no-such-directory/state.db")).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert!(error.message().contains("no-such-directory"));
    }
}
