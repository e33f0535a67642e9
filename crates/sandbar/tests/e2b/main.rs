//! The unmodified SDKs of E2B drive a real host, as users have it: told where it is by what `sandbar env` prints.
//!
//! What users do is in `tests/e2b`, one case each, in Python (each once with `Sandbox` and once with `AsyncSandbox`) and in
//! JavaScript. Setup installs the SDKs in several versions; every version runs every case it has.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod host;
mod javascript;
mod python;
