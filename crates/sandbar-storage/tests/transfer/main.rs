//! Import of bases, and packs in an object store.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its support code too"
)]

mod import;
mod ordinary_user;
mod pack;
