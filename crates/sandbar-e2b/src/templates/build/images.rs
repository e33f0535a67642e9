//! Bases that images were unpacked into: there as long as something stands on them.
//!
//! The host says whether anything does: builds and layers are bases saved from sessions that began with an image.

use std::sync::Arc;

use sandbar_core::{ErrorCode, Result};
use tokio::sync::{Mutex, OwnedRwLockReadGuard, RwLock};

use super::Builds;
use crate::{
    surface::Surface,
    templates::{IMAGE_BASE, Templates},
};

/// Who uses images, and who removes them.
#[derive(Debug, Default)]
pub(super) struct Images {
    /// Shared by builds that begin with one, until a session stands on it.
    held: Arc<RwLock<()>>,
    /// Held by whoever removes some: nobody leaves it to another who has looked already.
    removal: Mutex<()>,
}

/// While there is one, images stay that nothing stands on yet.
pub(super) type ImageHold = OwnedRwLockReadGuard<()>;

impl Builds {
    pub(super) async fn hold_images(&self) -> ImageHold {
        Arc::clone(&self.images.held).read_owned().await
    }
}

impl Surface {
    /// Removes the bases of images nothing stands on.
    pub(super) async fn remove_images(&self, templates: &Templates) -> Result<()> {
        let images = &templates.builds.images;
        let _turn = images.removal.lock().await;
        // A build that is about to begin with one comes here again when it is over.
        let Ok(_alone) = images.held.try_write() else { return Ok(()) };
        let bases = self.host.list_bases().await?;
        for base in bases.into_iter().map(|base| base.name).filter(|name| name.as_str().starts_with(IMAGE_BASE)) {
            match self.host.delete_base(&base).await {
                Ok(()) => tracing::info!(%base, "removed an image nothing stands on"),
                Err(error) if matches!(error.code(), ErrorCode::InvalidState | ErrorCode::BaseNotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
