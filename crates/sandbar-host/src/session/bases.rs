//! Bases: what sessions start from.

use std::sync::PoisonError;

use sandbar_core::{BaseName, ErrorCode, Result};
use sandbar_registry::{Credentials, ImageReference, PullProgress, PulledImage};
use sandbar_storage::{BaseRecord, ImportProgress, ImportSource, import_base};

use crate::{
    Host,
    verb::{Call, Verb},
};

impl Host {
    pub async fn list_bases(&self) -> Result<Vec<BaseRecord>> {
        self.run(Call::of(Verb::ListBases), |inner| inner.storage.bases()).await
    }

    /// Makes a base. One that fails leaves nothing behind.
    pub async fn import_base(
        &self,
        name: &BaseName,
        source: &ImportSource,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
    ) -> Result<BaseRecord> {
        let (name, source) = (name.clone(), source.clone());
        let call = Call::of(Verb::ImportBase).with("base", name.as_str());
        self.run(call, move |inner| {
            inner.admit()?;
            inner.require_space()?;
            import_base(&*inner.storage, &name, &source, &progress)
        })
        .await
    }

    /// Fetches an image from its registry. Dropping the future stops it; what was fetched is gone on with next time.
    pub async fn pull_image(
        &self,
        reference: &ImageReference,
        credentials: Option<Credentials>,
        progress: impl Fn(PullProgress) + Sync,
    ) -> Result<PulledImage> {
        self.inner().admit()?;
        self.inner().images.pull(reference, credentials, progress).await
    }

    /// Makes a base from an image of a registry. Before the import begins, progress counts bytes that were fetched.
    pub async fn import_image(
        &self,
        name: &BaseName,
        reference: &ImageReference,
        credentials: Option<Credentials>,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
    ) -> Result<BaseRecord> {
        let fetched = |so_far: PullProgress| progress(ImportProgress { entries: 0, bytes: so_far.fetched });
        let image = self.pull_image(reference, credentials, fetched).await?;
        self.import_pulled(name, image, progress).await
    }

    /// Makes a base from an image that was fetched.
    pub async fn import_pulled(
        &self,
        name: &BaseName,
        image: PulledImage,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
    ) -> Result<BaseRecord> {
        let source = ImportSource::OciLayout(image.layout().to_owned());
        let imported = self.import_base(name, &source, progress).await;
        if imported.as_ref().is_err_and(|error| error.code() == ErrorCode::InvalidArgument) {
            // What is damaged on disk is fetched anew next time.
            image.discard();
        }
        imported
    }

    /// Removes a base no session stands on, hibernated ones included.
    pub async fn delete_base(&self, name: &BaseName) -> Result<()> {
        let name = name.clone();
        let call = Call::of(Verb::DeleteBase).with("base", name.as_str());
        self.run(call, move |inner| {
            let _order = inner.base_order.lock().unwrap_or_else(PoisonError::into_inner);
            inner.require_unused_by_hibernated(&name)?;
            inner.storage.delete_base(&name)
        })
        .await
    }
}
