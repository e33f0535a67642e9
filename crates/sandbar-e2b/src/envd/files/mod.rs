//! `/files`: file contents over plain HTTP.

mod content_type;
mod disposition;
mod download;
mod encoding;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod incoming;
mod kernel_files;
mod metadata;
mod multipart;
mod range;
mod request;
mod upload;

pub(crate) use request::PATH;
pub(super) use request::router;
