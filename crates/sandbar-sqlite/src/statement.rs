//! A prepared statement, and the row it stands on.

#![expect(unsafe_code, reason = "calls into SQLite")]

use std::{
    ffi::{c_char, c_int},
    ptr::{self, NonNull},
};

use sandbar_core::{Error, Result};

use crate::{Value, ffi};

const UTF_8: u8 = 1;

/// A prepared statement. It is finalised when dropped; [`Database`](crate::Database) drops it before the connection.
#[derive(Debug)]
pub(crate) struct Statement {
    raw: NonNull<ffi::Statement>,
}

// SAFETY: a statement may move between threads as long as one uses it at a time, which `&mut self` ensures; the
// connection is opened with SQLite's own mutex on top.
unsafe impl Send for Statement {}

impl Statement {
    /// Takes over a pointer that `sqlite3_prepare_v3` returned.
    pub(crate) fn new(raw: NonNull<ffi::Statement>) -> Self {
        Self { raw }
    }

    /// Resets the statement and gives it new parameters, which must outlive its use: they are not copied.
    pub(crate) fn bind(&mut self, parameters: &[Value]) -> c_int {
        self.reset();
        for (index, value) in (1..).zip(parameters) {
            let statement = self.raw.as_ptr();
            // SAFETY: the statement is live. A null destructor is SQLITE_STATIC: the caller keeps `parameters` until the
            // statement has been stepped and reset.
            let outcome = unsafe {
                match value {
                    Value::Null => ffi::sqlite3_bind_null(statement, index),
                    Value::Integer(number) => ffi::sqlite3_bind_int64(statement, index, *number),
                    Value::Text(text) => ffi::sqlite3_bind_text64(
                        statement,
                        index,
                        text.as_ptr().cast::<c_char>(),
                        text.len() as u64,
                        ptr::null(),
                        UTF_8,
                    ),
                }
            };
            if outcome != ffi::OK {
                return outcome;
            }
        }
        ffi::OK
    }

    pub(crate) fn step(&mut self) -> c_int {
        // SAFETY: the statement is live and its parameters are, too (see `bind`).
        unsafe { ffi::sqlite3_step(self.raw.as_ptr()) }
    }

    pub(crate) fn reset(&mut self) {
        // SAFETY: the statement is live. The result repeats that of the last step, which was looked at.
        unsafe { ffi::sqlite3_reset(self.raw.as_ptr()) };
    }

    pub(crate) fn row(&self) -> Row<'_> {
        Row { statement: self }
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: the statement is live and not used again.
        unsafe { ffi::sqlite3_finalize(self.raw.as_ptr()) };
    }
}

/// The row a statement stands on. Columns are counted from 0.
#[derive(Debug)]
pub struct Row<'a> {
    statement: &'a Statement,
}

impl Row<'_> {
    fn kind(&self, column: c_int) -> c_int {
        // SAFETY: the statement stands on a row; SQLite answers NULL for a column that is not there.
        unsafe { ffi::sqlite3_column_type(self.statement.raw.as_ptr(), column) }
    }

    pub fn integer(&self, column: i32) -> Result<i64> {
        self.optional_integer(column)?.ok_or_else(|| unexpected(column, "an integer"))
    }

    pub fn optional_integer(&self, column: i32) -> Result<Option<i64>> {
        match self.kind(column) {
            // SAFETY: as in `kind`.
            ffi::INTEGER => Ok(Some(unsafe { ffi::sqlite3_column_int64(self.statement.raw.as_ptr(), column) })),
            ffi::NULL => Ok(None),
            _ => Err(unexpected(column, "an integer")),
        }
    }

    pub fn text(&self, column: i32) -> Result<String> {
        self.optional_text(column)?.ok_or_else(|| unexpected(column, "text"))
    }

    pub fn optional_text(&self, column: i32) -> Result<Option<String>> {
        match self.kind(column) {
            ffi::TEXT => {
                // SAFETY: as in `kind`; the text stays valid until the next step, and is copied before that.
                let bytes = unsafe {
                    let text = ffi::sqlite3_column_text(self.statement.raw.as_ptr(), column);
                    let length = ffi::sqlite3_column_bytes(self.statement.raw.as_ptr(), column);
                    if text.is_null() {
                        return Err(unexpected(column, "text"));
                    }
                    std::slice::from_raw_parts(text, usize::try_from(length).unwrap_or(0))
                };
                String::from_utf8(bytes.to_vec()).map(Some).map_err(|_| unexpected(column, "UTF-8"))
            }
            ffi::NULL => Ok(None),
            _ => Err(unexpected(column, "text")),
        }
    }
}

fn unexpected(column: i32, wanted: &str) -> Error {
    Error::internal(format!("column {column} of the state database is not {wanted}"))
}
