//! SQLite, as far as a host needs it: one connection, cached statements, transactions.
//!
//! [`Database`] is the whole interface. It links the system's `libsqlite3.a`; the C functions are declared in one file and
//! no raw pointer leaves this crate.
//!
//! Invariant: a [`Database`] is used by one thread at a time (`&mut self` everywhere), and a transaction that does not
//! return `Ok` is rolled back.

use rusqlite as _;

mod database;
mod ffi;
mod statement;
mod value;

pub use database::Database;
pub use statement::Row;
pub use value::Value;
