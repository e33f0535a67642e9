//! Images from OCI registries.
//!
//! [`ImageCache::pull`] resolves an [`ImageReference`], fetches the manifest and the parts of the image that fits this
//! machine, and hands out a [`PulledImage`]: an OCI layout that `sandbar_storage::import_base` reads.
//!
//! Invariant: a part is in the cache only under the digest its bytes have. What a registry sends is never believed: every
//! length is bounded, every redirect is counted and looked at, and without TLS only this machine's own loopback is spoken to.

mod cache;
mod challenge;
mod connection;
mod credentials;
mod download;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod patience;
mod pull;
mod reference;
mod trust;

pub use cache::{ImageCache, ImageCacheSettings};
pub use credentials::Credentials;
pub use pull::{PullProgress, PulledImage};
pub use reference::ImageReference;
