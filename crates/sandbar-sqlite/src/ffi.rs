//! The C functions we call, declared as in `sqlite3.h`.

#![expect(unsafe_code, reason = "SQLite is a C library")]

use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub(crate) struct Connection {
    _private: [u8; 0],
}

#[repr(C)]
pub(crate) struct Statement {
    _private: [u8; 0],
}

pub(crate) const OK: c_int = 0;
pub(crate) const READ_ONLY: c_int = 8;
pub(crate) const IO_ERROR: c_int = 10;
pub(crate) const FULL: c_int = 13;
pub(crate) const CANNOT_OPEN: c_int = 14;
pub(crate) const CONSTRAINT: c_int = 19;
pub(crate) const ROW: c_int = 100;
pub(crate) const DONE: c_int = 101;
pub(crate) const INTEGER: c_int = 1;
pub(crate) const TEXT: c_int = 3;
pub(crate) const NULL: c_int = 5;
pub(crate) const OPEN_READ_WRITE: c_int = 2;
pub(crate) const OPEN_CREATE: c_int = 4;
pub(crate) const OPEN_FULL_MUTEX: c_int = 0x10000;
pub(crate) const PREPARE_PERSISTENT: u32 = 1;

unsafe extern "C" {
    pub(crate) fn sqlite3_open_v2(
        path: *const c_char,
        connection: *mut *mut Connection,
        flags: c_int,
        vfs: *const c_char,
    ) -> c_int;
    pub(crate) fn sqlite3_close_v2(connection: *mut Connection) -> c_int;
    pub(crate) fn sqlite3_busy_timeout(connection: *mut Connection, milliseconds: c_int) -> c_int;
    pub(crate) fn sqlite3_errmsg(connection: *mut Connection) -> *const c_char;
    pub(crate) fn sqlite3_changes64(connection: *mut Connection) -> i64;
    pub(crate) fn sqlite3_exec(
        connection: *mut Connection,
        sql: *const c_char,
        callback: *const c_void,
        argument: *mut c_void,
        message: *mut *mut c_char,
    ) -> c_int;
    pub(crate) fn sqlite3_prepare_v3(
        connection: *mut Connection,
        sql: *const c_char,
        length: c_int,
        flags: u32,
        statement: *mut *mut Statement,
        tail: *mut *const c_char,
    ) -> c_int;
    pub(crate) fn sqlite3_bind_null(statement: *mut Statement, index: c_int) -> c_int;
    pub(crate) fn sqlite3_bind_int64(statement: *mut Statement, index: c_int, value: i64) -> c_int;
    pub(crate) fn sqlite3_bind_text64(
        statement: *mut Statement,
        index: c_int,
        text: *const c_char,
        length: u64,
        destructor: *const c_void,
        encoding: u8,
    ) -> c_int;
    pub(crate) fn sqlite3_step(statement: *mut Statement) -> c_int;
    pub(crate) fn sqlite3_reset(statement: *mut Statement) -> c_int;
    pub(crate) fn sqlite3_finalize(statement: *mut Statement) -> c_int;
    pub(crate) fn sqlite3_column_type(statement: *mut Statement, column: c_int) -> c_int;
    pub(crate) fn sqlite3_column_int64(statement: *mut Statement, column: c_int) -> i64;
    pub(crate) fn sqlite3_column_text(statement: *mut Statement, column: c_int) -> *const u8;
    pub(crate) fn sqlite3_column_bytes(statement: *mut Statement, column: c_int) -> c_int;
}
