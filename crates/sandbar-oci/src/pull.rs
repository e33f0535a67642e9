//! Pull of an image: manifest, blobs, layout.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use sandbar_core::{ByteCount, Error, ErrorCode, Result};
use sandbar_tree::remove_tree;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{
    Credentials, ImageCache, ImageReference,
    blobs::{ImageDescriptor, MAX_DOCUMENT_BYTES, compare, hex},
    cache::failed,
    connection::Connection,
    download::download,
    layout::{ImageDocument, MAX_INDEX_DEPTH, ResolvedDocument},
    retry::Attempts,
    trust,
};

/// Media types of indexes and manifests.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";
const MAX_CONCURRENT_DOWNLOADS: usize = 3;

/// Progress of a pull in compressed bytes. Blobs already in the cache count as fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    pub fetched: u64,
    pub total: u64,
}

/// Pulled image on disk: an OCI layout that is removed on drop.
#[derive(Debug)]
pub struct PulledImage {
    layout: PathBuf,
    digest: String,
    parts: Vec<PathBuf>,
}

impl PulledImage {
    /// Returns the path of the layout to import.
    pub fn layout(&self) -> &Path {
        &self.layout
    }

    /// Returns the digest of the manifest for this platform, which identifies the image.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Removes its blobs from the cache, because they could not be imported.
    pub fn discard(self) {
        for part in &self.parts {
            // A blob that stays fails the import again.
            let _ = fs::remove_file(part);
        }
    }
}

impl Drop for PulledImage {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.layout) {
            tracing::warn!("could not remove a pulled image: {}", error.chain());
        }
    }
}

/// Manifest and its digest.
struct Manifest {
    digest: String,
    bytes: u64,
    config: ImageDescriptor,
    layers: Vec<ImageDescriptor>,
}

impl ImageCache {
    /// Downloads the missing blobs of an image. Dropping the future stops the pull; the next one
    /// resumes partial downloads.
    pub async fn pull(
        &self,
        reference: &ImageReference,
        credentials: Option<Credentials>,
        progress: impl Fn(PullProgress) + Sync,
    ) -> Result<PulledImage> {
        let limit = self.settings.max_duration;
        // A registry that sends a byte a minute makes progress, too.
        match tokio::time::timeout(limit, self.pull_image(reference, credentials, progress)).await {
            Ok(pulled) => pulled,
            Err(_) => Err(Error::new(
                ErrorCode::Timeout,
                format!("pull of image `{reference}` did not end within {limit:?}"),
            )
            .with_field("image")
            .with_hint("pull again: it continues with the blobs that were fetched")),
        }
    }

    async fn pull_image(
        &self,
        reference: &ImageReference,
        credentials: Option<Credentials>,
        progress: impl Fn(PullProgress) + Sync,
    ) -> Result<PulledImage> {
        let shared = self.in_use.read().await;
        self.prepare()?;
        let loopback = crate::reference::is_loopback(reference.host());
        let client = trust::client(self.settings.trusted_certificates.as_deref(), loopback)?;
        let connection = Connection::open(client, reference, credentials).await?;
        let manifest = self.manifest(&connection, reference).await?;
        let parts: Vec<_> = [&manifest.config]
            .into_iter()
            .chain(&manifest.layers)
            .map(sized)
            .collect::<Result<_>>()?;
        let total = parts
            .iter()
            .fold(0_u64, |total, (_, size)| total.saturating_add(*size));
        if total > self.settings.max_image_size.get() {
            let message = format!(
                "image `{reference}` has {}, more than the limit of {}",
                ByteCount(total),
                self.settings.max_image_size
            );
            return Err(Error::invalid("image", message));
        }
        let counter = Counter {
            total,
            fetched: AtomicU64::new(0),
            report: &progress,
        };
        let fetches: Vec<_> = parts
            .into_iter()
            .map(|(part, size)| self.fetch(&connection, part, size, &counter))
            .collect();
        let mut paths: Vec<PathBuf> = stream::iter(fetches)
            .buffered(MAX_CONCURRENT_DOWNLOADS)
            .try_collect()
            .await?;
        paths.push(self.blob_file(&manifest.digest)?);
        let image = self.create_layout(&manifest, paths)?;
        drop(shared);
        self.shrink()?;
        Ok(image)
    }

    /// Resolves the reference to the manifest for this platform.
    async fn manifest(
        &self,
        connection: &Connection,
        reference: &ImageReference,
    ) -> Result<Manifest> {
        let mut wanted = reference.version().to_owned();
        let mut expected = reference.digest().map(ToOwned::to_owned);
        for _ in 0..=MAX_INDEX_DEPTH {
            let bytes = self
                .document(connection, &wanted, expected.as_deref())
                .await?;
            let digest = format!("sha256:{}", hex(&Sha256::digest(&bytes)));
            let document: ImageDocument = serde_json::from_slice(&bytes).map_err(|error| {
                connection
                    .refused(&format!("has no manifest at `{wanted}`"))
                    .with_source(error)
            })?;
            match document
                .resolve()
                .map_err(|error| error.with_field("image"))?
            {
                ResolvedDocument::Manifest { config, layers } => {
                    self.put(&digest, &bytes)?;
                    return Ok(Manifest {
                        digest,
                        bytes: bytes.len() as u64,
                        config,
                        layers,
                    });
                }
                ResolvedDocument::Descriptor(descriptor) => {
                    self.blob_file(&descriptor.digest)
                        .map_err(|error| error.with_field("image"))?;
                    wanted.clone_from(&descriptor.digest);
                    expected = Some(descriptor.digest);
                }
            }
        }
        Err(connection.refused(&format!(
            "nests the manifest of `{reference}` in too many indexes"
        )))
    }

    /// Reads a manifest or index, from the cache if it is referenced by digest.
    async fn document(
        &self,
        connection: &Connection,
        wanted: &str,
        expected: Option<&str>,
    ) -> Result<Vec<u8>> {
        if let Some(digest) = expected
            && let Ok(bytes) = fs::read(self.blob_file(digest)?)
            && compare(digest, &hex(&Sha256::digest(&bytes))).is_ok()
        {
            return Ok(bytes);
        }
        let part = format!("manifests/{wanted}");
        let mut attempts = Attempts::new(self.retry_policy());
        let bytes = loop {
            let fetched = async {
                let response = connection.get(&part, MANIFESTS, 0).await?;
                connection
                    .bounded(response, MAX_DOCUMENT_BYTES, &part)
                    .await
            };
            match fetched.await {
                Ok(bytes) => break bytes,
                Err(failure) => attempts.after(failure).await?,
            }
        };
        if let Some(digest) = expected {
            compare(digest, &hex(&Sha256::digest(&bytes)))
                .map_err(|error| error.with_field("image"))?;
        }
        Ok(bytes)
    }

    async fn fetch(
        &self,
        connection: &Connection,
        part: ImageDescriptor,
        size: u64,
        counter: &Counter<'_>,
    ) -> Result<PathBuf> {
        let so_far = AtomicU64::new(0);
        let report = |have: u64| counter.count(&so_far, have);
        let _lock = self.lock_blob(&part.digest).await;
        let path = if let Some(path) = self.mark_used(&part.digest, size)? {
            path
        } else {
            download(
                connection,
                &part,
                size,
                &self.partial(&part.digest)?,
                self.retry_policy(),
                &report,
            )
            .await?;
            self.complete(&part.digest)?
        };
        report(size);
        Ok(path)
    }

    /// Creates a layout with hard links to the cached blobs, so that it is not affected when the
    /// cache shrinks.
    fn create_layout(&self, manifest: &Manifest, parts: Vec<PathBuf>) -> Result<PulledImage> {
        let layout = self.new_layout();
        let image = PulledImage {
            layout: layout.clone(),
            digest: manifest.digest.clone(),
            parts,
        };
        let blobs = layout.join("blobs/sha256");
        let write = || {
            fs::create_dir_all(&blobs)?;
            for part in &image.parts {
                match fs::hard_link(part, blobs.join(part.file_name().unwrap_or_default())) {
                    // Images may contain the same (empty) layer twice.
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                    outcome => outcome?,
                }
            }
            let kind = "application/vnd.oci.image.manifest.v1+json";
            let entry =
                json!({ "mediaType": kind, "digest": manifest.digest, "size": manifest.bytes });
            let index = json!({ "schemaVersion": 2, "manifests": [entry] });
            fs::write(layout.join("index.json"), index.to_string())?;
            fs::write(
                layout.join("oci-layout"),
                json!({ "imageLayoutVersion": "1.0.0" }).to_string(),
            )
        };
        write().map_err(|error| failed("create the layout of an image", error))?;
        Ok(image)
    }
}

/// Returns a blob and its size. A blob without a size is refused, because the download would be
/// unbounded.
fn sized(part: &ImageDescriptor) -> Result<(ImageDescriptor, u64)> {
    let no_size = || {
        Error::invalid(
            "image",
            format!("blob `{}` of the image has no size", part.digest),
        )
    };
    Ok((part.clone(), part.size.ok_or_else(no_size)?))
}

/// Sum of the bytes fetched of all blobs.
struct Counter<'a> {
    total: u64,
    fetched: AtomicU64,
    report: &'a (dyn Fn(PullProgress) + Sync),
}

impl Counter<'_> {
    /// Records the bytes of one blob. A download that starts over reports fewer.
    fn count(&self, counted: &AtomicU64, have: u64) {
        let more = have.wrapping_sub(counted.swap(have, Ordering::Relaxed));
        let fetched = self
            .fetched
            .fetch_add(more, Ordering::Relaxed)
            .wrapping_add(more);
        (self.report)(PullProgress {
            fetched,
            total: self.total,
        });
    }
}
