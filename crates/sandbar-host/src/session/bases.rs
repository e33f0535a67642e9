//! Bases: list, import and delete.

use std::{
    sync::PoisonError,
    time::{Duration, Instant},
};

use sandbar_core::{BaseInfo, BaseName, Error, ErrorCode, Result};
use sandbar_oci::{Credentials, ImageReference, PullProgress, PulledImage};
use sandbar_storage::{ImportProgress, ImportSource, base_not_found, import_base_while};
use tokio_util::sync::CancellationToken;

use crate::{
    Host,
    engine::Engine,
    verb::{Call, Verb},
};

/// Time limit of an import, without the download of an image.
const MAX_IMPORT_TIME: Duration = Duration::from_hours(6);

impl Host {
    /// Lists imported and saved bases, by name.
    pub async fn list_bases(&self) -> Result<Vec<BaseInfo>> {
        self.run(Call::of(Verb::ListBases), |engine| engine.bases())
            .await
    }

    /// Imports a base. A failed import leaves nothing behind. Dropping the future ends it.
    pub async fn import_base(
        &self,
        name: &BaseName,
        source: &ImportSource,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
    ) -> Result<BaseInfo> {
        let (name, source) = (name.clone(), source.clone());
        let call = Call::of(Verb::ImportBase).with("base", name.as_str());
        let (cancelled, begun) = (CancellationToken::new(), Instant::now());
        // Dropped with this future, when the caller is gone.
        let _guard = cancelled.clone().drop_guard();
        self.run(call, move |engine| {
            let check = || {
                if cancelled.is_cancelled() {
                    let message = format!("import of base `{name}` was cancelled by its caller");
                    return Err(Error::new(ErrorCode::Unavailable, message));
                }
                if begun.elapsed() > MAX_IMPORT_TIME {
                    let message =
                        format!("import of base `{name}` did not end within {MAX_IMPORT_TIME:?}");
                    return Err(Error::new(ErrorCode::Timeout, message));
                }
                engine.admit()
            };
            engine.admit()?;
            engine.require_space()?;
            let _claim = engine.saved_bases.claim(&name)?;
            import_base_while(&*engine.storage, &name, &source, &progress, &check).map(Into::into)
        })
        .await
    }

    /// Pulls an image from its registry. Dropping the future stops the pull; the next one continues
    /// with the blobs that were fetched.
    pub async fn pull_image(
        &self,
        reference: &ImageReference,
        credentials: Option<Credentials>,
        progress: impl Fn(PullProgress) + Sync,
    ) -> Result<PulledImage> {
        self.engine().admit()?;
        self.engine()
            .images
            .pull(reference, credentials, progress)
            .await
    }

    /// Pulls an image from its registry and imports it as a base. During the pull, progress counts
    /// fetched bytes.
    pub async fn import_image(
        &self,
        name: &BaseName,
        reference: &ImageReference,
        credentials: Option<Credentials>,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
    ) -> Result<BaseInfo> {
        let fetched = |so_far: PullProgress| {
            progress(ImportProgress {
                entries: 0,
                bytes: so_far.fetched,
                total: Some(so_far.total),
            });
        };
        let image = self.pull_image(reference, credentials, fetched).await?;
        self.import_pulled(name, image, progress).await
    }

    /// Imports a pulled image as a base.
    pub async fn import_pulled(
        &self,
        name: &BaseName,
        image: PulledImage,
        progress: impl Fn(ImportProgress) + Send + Sync + 'static,
    ) -> Result<BaseInfo> {
        let source = ImportSource::OciLayout(image.layout().to_owned());
        let imported = self.import_base(name, &source, progress).await;
        if imported
            .as_ref()
            .is_err_and(|error| error.code() == ErrorCode::InvalidArgument)
        {
            // The cached image may be damaged, so the next pull fetches it again.
            image.discard();
        }
        imported
    }

    /// Deletes a base. An imported base must not be in use by a session, hibernated ones included,
    /// or by a saved base; a saved one may be deleted at any time.
    pub async fn delete_base(&self, name: &BaseName) -> Result<()> {
        let name = name.clone();
        let call = Call::of(Verb::DeleteBase).with("base", name.as_str());
        self.run(call, move |engine| engine.delete_base(&name))
            .await
    }
}

impl Engine {
    fn bases(&self) -> Result<Vec<BaseInfo>> {
        let mut bases: Vec<BaseInfo> = self.storage.bases()?.into_iter().map(Into::into).collect();
        for saved in self.saved_bases.all() {
            bases.push(self.saved_info(&saved.record));
        }
        bases.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(bases)
    }

    fn delete_base(&self, name: &BaseName) -> Result<()> {
        if let Some(saved) = self.saved_bases.get(name) {
            return self.delete_saved(&saved);
        }
        let _order = self
            .base_order
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.require_unused_by_hibernated(name)?;
        self.require_unused_by_saved(name)?;
        match self.storage.delete_base(name) {
            Err(error) if error.code() == ErrorCode::BaseNotFound => Err(self.no_base(name)),
            outcome => outcome,
        }
    }

    /// Refuses while a saved base needs this one.
    fn require_unused_by_saved(&self, name: &BaseName) -> Result<()> {
        match self
            .saved_bases
            .all()
            .iter()
            .find(|saved| saved.record.ground.base == *name)
        {
            None => Ok(()),
            Some(saved) => {
                let user = &saved.record.name;
                Err(Error::new(
                    ErrorCode::InvalidState,
                    format!("base `{name}` is needed by base `{user}`"),
                )
                .with_field("name")
                .with_hint(format!("delete that first with `sandbar base rm {user}`")))
            }
        }
    }

    /// Returns `BaseNotFound` with the names of the existing bases.
    pub(crate) fn no_base(&self, name: &BaseName) -> Error {
        match self.bases() {
            Ok(known) => base_not_found(name, known.iter().map(|base| &base.name)),
            Err(error) => error,
        }
    }
}
