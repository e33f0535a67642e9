//! Bases of unpacked images, which are kept while another base or a session depends on them.
//!
//! The host tracks these dependencies: builds and layers are saved from sessions that started from
//! an image.

use std::sync::Arc;

use sandbar_core::{ErrorCode, Result};
use tokio::sync::{Mutex, OwnedRwLockReadGuard, RwLock};

use super::builds::Builds;
use crate::templates::{Templates, ids::IMAGE_BASE, state::TemplateStore};

/// Synchronises builds that start from an image with the removal of unused images.
#[derive(Debug, Default)]
pub(super) struct Images {
    /// Held shared by a build between unpacking an image and creating a session from it.
    in_use: Arc<RwLock<()>>,
    /// Serialises removal. A second caller waits and scans again, because the first scan may have
    /// started before its base became unused.
    removal: Mutex<()>,
}

/// Guard that keeps images from being removed.
pub(super) type ImageHold = OwnedRwLockReadGuard<()>;

impl Builds {
    pub(super) async fn hold_images(&self) -> ImageHold {
        Arc::clone(&self.images.in_use).read_owned().await
    }
}

impl Templates {
    /// Deletes the bases of unused images.
    pub(super) async fn remove_images(&self, store: &TemplateStore) -> Result<()> {
        let images = &store.builds.images;
        let _removal = images.removal.lock().await;
        // A build is about to use an image; it calls this again when it ends.
        let Ok(_exclusive) = images.in_use.try_write() else {
            return Ok(());
        };
        let bases = self.host.list_bases().await?;
        for base in bases
            .into_iter()
            .map(|base| base.name)
            .filter(|name| name.as_str().starts_with(IMAGE_BASE))
        {
            match self.host.delete_base(&base).await {
                Ok(()) => tracing::info!(%base, "deleted an unused image"),
                Err(error)
                    if matches!(
                        error.code(),
                        ErrorCode::InvalidState | ErrorCode::BaseNotFound
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
