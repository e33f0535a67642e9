//! The `local-disk` backend: plain directories on any file system.
//!
//! A snapshot copies the session's own layer: by reflink where the file system supports it (XFS,
//! btrfs, bcachefs), else byte by byte. Its cost grows with what the session has written, not with
//! the base; `doctor` reports this.

mod directories;
mod open;
mod project_quota;
mod quota_calls;

pub(crate) use open::open;
