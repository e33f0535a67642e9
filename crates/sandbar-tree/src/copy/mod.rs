//! Exact copy of a directory tree: contents (by reflink where possible), holes, owners, modes,
//! times, extended attributes, hard links, symbolic links, pipes, sockets and devices.

mod content;
mod metadata;
mod options;
mod tree;

pub(crate) use content::{next_data, write_all_at};
pub use options::{CopyOptions, CopySummary, Fidelity, OverlayInternals};
pub(crate) use tree::copy_opened;
pub use tree::copy_tree;
