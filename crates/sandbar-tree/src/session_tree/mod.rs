//! The mounted tree of a session, accessed by descriptors.
//!
//! Invariant: no operation leaves the tree. Every path is resolved by `openat2` with
//! `RESOLVE_IN_ROOT` and `RESOLVE_NO_MAGICLINKS` on the tree's root, so `..`, absolute symbolic
//! links and concurrent renames resolve inside it.

mod details;
mod draft;
mod list;
mod make_directory;
mod named;
mod remove;
mod rename;
mod tree;
mod walk;
mod watch;

pub use draft::{Draft, DraftKind};
pub use list::Listing;
pub use tree::{SessionTree, WORKING_DIRECTORY, WriteTarget, absolute, failure, open_regular};
pub use walk::{Step, Visitor, WalkEntry};
pub use watch::{TreeWatch, WatchBatch, WatchBudget};
