//! Directory trees, reached by descriptors: archived, walked, copied, removed.
//!
//! [`SessionTree`] is the mounted tree of a session, and the only way host-side code opens files in
//! it. [`archive`] reads and writes tar streams; [`copy_tree`] and [`remove_tree`] work on trees of
//! any depth.
//!
//! Invariant: a path from a session or an archive is resolved by the kernel, with `openat2` below
//! the descriptor of the tree's root. Neither `..`, nor a symbolic link, nor a concurrent rename
//! leads out of the tree.

mod acting_owner;
pub mod archive;
mod confine;
mod copy;
pub mod descent;
#[cfg(fuzzing)]
pub mod fuzzing;
mod remove;
pub mod session_tree;
mod usage;
pub mod xattrs;

pub use acting_owner::{ActingOwner, ActingUnprivileged};
pub use confine::open_confined;
pub use copy::{CopyOptions, CopySummary, Fidelity, OverlayInternals, copy_tree};
pub use remove::{remove_tree, remove_tree_at};
pub use session_tree::{Draft, SessionTree};
pub use usage::allocated;
