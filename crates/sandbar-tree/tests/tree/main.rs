//! Trees that are copied and archived, by root and by an ordinary user.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its support code too"
)]

mod archive;
mod copy;
mod ordinary_user;
