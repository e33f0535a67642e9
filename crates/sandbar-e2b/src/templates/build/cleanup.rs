//! Deleting bases that no template needs.

use sandbar_core::{ErrorCode, Result};

use crate::templates::{Templates, state::TemplateStore};

impl Templates {
    /// Deletes bases that are no longer needed. A base in use is tried again next time.
    pub(in crate::templates) async fn remove_leftover(&self) {
        let Ok(store) = self.store().await else {
            return;
        };
        self.remove_leftover_of(store).await;
    }

    pub(super) async fn remove_leftover_of(&self, store: &TemplateStore) {
        let leftover = store.catalogue.view().leftover.clone();
        let mut gone = Vec::new();
        for base in leftover {
            match self.host.delete_base(&base).await {
                Ok(()) => gone.push(base),
                Err(error) if error.code() == ErrorCode::BaseNotFound => gone.push(base),
                Err(error) => {
                    tracing::debug!(%base, error = error.chain(), "unused base not deleted yet");
                }
            }
        }
        // After the bases, which may have been the last users of an image.
        if let Err(error) = self.remove_images(store).await {
            tracing::warn!(error = error.chain(), "unused images could not be deleted");
        }
        if gone.is_empty() {
            return;
        }
        let recorded = store.catalogue.change(|contents| {
            contents.leftover.retain(|base| !gone.contains(base));
            Result::<()>::Ok(())
        });
        if let Err(error) = recorded.await {
            tracing::warn!(
                error = error.chain(),
                "deleted bases are still listed in the catalogue"
            );
        }
    }
}
