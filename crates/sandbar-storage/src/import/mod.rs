//! Bases from elsewhere: a directory, a tar archive, an OCI layout, a docker-archive, or this machine's own programs.
//!
//! [`ImportSource::parse`] finds out by looking what something is; [`import_base`] builds the tree in a stage of the
//! storage and commits it. Invariant: a base is there whole or not at all.

mod base;
mod blobs;
mod docker;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod host;
mod host_files;
mod host_programs;
mod host_users;
mod image;
mod oci;
mod skeleton;
mod source;

pub use base::{ImportProgress, fill_host_root, import_base};
pub use blobs::{ImageDescriptor, LARGEST_DOCUMENT, blob_path, compare, hex};
pub use host::lent_directory_of;
pub use oci::{DEEPEST_INDEX, ImageDocument, ImageLead};
pub use source::ImportSource;
