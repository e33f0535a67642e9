//! The mounted tree of a session, reached by descriptors.
//!
//! Nothing here can lead out of the tree: every name goes through `openat2` with the tree's root as `/`, so `..`, links
//! and races end inside.

mod arrange;
mod details;
mod draft;
mod look;
mod tree;
mod walk;
mod watch;

pub use draft::{Draft, DraftKind};
pub use look::Listing;
pub use tree::{Place, SessionTree, WORKING_DIRECTORY, absolute, failure, open_regular};
pub use walk::{Step, Visitor, WalkEntry};
pub use watch::{TreeWatch, WatchBatch};
