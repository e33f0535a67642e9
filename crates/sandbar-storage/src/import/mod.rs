//! Import of bases: from a directory, a tar archive, an OCI layout, a docker-archive, or this
//! machine's own programs.
//!
//! [`ImportSource::parse`] detects the type of a source; [`import_base`] builds the tree in a stage
//! of the storage and commits it. Invariant: a base is complete, or does not exist.

mod base;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod host;
mod host_files;
mod host_programs;
mod host_users;
mod skeleton;
mod source;

pub use base::{ImportProgress, fill_host_root, import_base, import_base_while};
pub use host::lent_directory_of;
pub use source::ImportSource;
