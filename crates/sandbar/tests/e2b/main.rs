//! The unmodified E2B SDKs drive a real host, configured by the output of `sandbar env`.
//!
//! The cases are in `tests/e2b`, in Python (with `Sandbox` and with `AsyncSandbox`) and in
//! JavaScript. Setup installs several versions of the SDKs; every version runs every case that it
//! supports.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod host;
mod javascript;
mod python;
