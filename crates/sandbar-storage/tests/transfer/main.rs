//! Trees that move: copied, archived, imported as bases, packed into an object store and back.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its support code too")]

mod archive;
mod import;
mod ordinary_user;
mod pack;
mod support;
mod tree_copy;
