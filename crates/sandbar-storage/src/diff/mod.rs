//! Differences between two trees of a volume.
//!
//! The walk descends both trees in parallel, and only where a session wrote: a directory that
//! neither tree has in its own layer comes from the base and is equal, so the cost grows with the
//! changes and not with the base. Files are opened by descriptor without following symbolic links,
//! because processes of the session control a live tree.

mod between;
mod compare;
mod merged;
mod walk;

pub use between::{DiffEntry, between};
