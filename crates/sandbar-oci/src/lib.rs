//! Container images: pulled from OCI registries, and unpacked from their formats on disk.
//!
//! [`ImageCache::pull`] resolves an [`ImageReference`], fetches the manifest and the blobs of the
//! image that fits this machine, and returns a [`PulledImage`]: an OCI layout. [`unpack_layout`]
//! and [`unpack_docker_archive`] unpack the layers of an image into a root file system.
//!
//! Invariant: a blob is in the cache only under the digest of its bytes. Registries are not
//! trusted: every length is bounded, redirects are counted and checked, and plain HTTP is used only
//! for registries on the loopback interface.

mod blobs;
mod cache;
mod challenge;
mod connection;
mod credentials;
mod docker_archive;
mod download;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod image;
mod layout;
mod pull;
mod reference;
mod retry;
mod trust;

pub use cache::{ImageCache, ImageCacheSettings};
pub use credentials::Credentials;
pub use docker_archive::unpack_docker_archive;
pub use image::{ImageSettings, UnpackControl, UnpackedImage};
pub use layout::unpack_layout;
pub use pull::{PullProgress, PulledImage};
pub use reference::ImageReference;
