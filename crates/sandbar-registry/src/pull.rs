//! A pull from beginning to end.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use sandbar_core::{ByteCount, Error, Result};
use sandbar_storage::{
    import::{DEEPEST_INDEX, ImageDescriptor, ImageDocument, ImageLead, LARGEST_DOCUMENT, compare, hex},
    remove_tree,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{
    Credentials, ImageCache, ImageReference, cache::failed, connection::Connection, download::download,
    patience::Attempts, trust,
};

/// Every kind of document that leads to layers.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";
const AT_ONCE: usize = 3;

/// How far a pull has come, in bytes as they are sent. Parts that were here before count as fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    pub fetched: u64,
    pub total: u64,
}

/// An image on this machine's disk, as an OCI layout that is there as long as this.
#[derive(Debug)]
pub struct PulledImage {
    layout: PathBuf,
    digest: String,
    parts: Vec<PathBuf>,
}

impl PulledImage {
    /// What to import.
    pub fn layout(&self) -> &Path {
        &self.layout
    }

    /// Digest of the manifest for this machine: two images with the same one are the same.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Throws its parts out of the cache, because they were of no use.
    pub fn discard(self) {
        for part in &self.parts {
            // One that stays is found out again next time.
            let _ = fs::remove_file(part);
        }
    }
}

impl Drop for PulledImage {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.layout) {
            tracing::warn!("a pulled image stays on disk: {}", error.chain());
        }
    }
}

/// A manifest, and how its bytes hash.
struct Manifest {
    digest: String,
    bytes: u64,
    config: ImageDescriptor,
    layers: Vec<ImageDescriptor>,
}

impl ImageCache {
    /// Fetches what is missing of an image. Dropping the future stops it; what was fetched is gone on with next time.
    pub async fn pull(
        &self,
        reference: &ImageReference,
        credentials: Option<Credentials>,
        progress: impl Fn(PullProgress) + Sync,
    ) -> Result<PulledImage> {
        let beside = self.in_use.read().await;
        self.prepare()?;
        let loopback = crate::reference::is_loopback(reference.host());
        let client = trust::client(self.settings.trusted_certificates.as_deref(), loopback)?;
        let connection = Connection::open(client, reference, credentials).await?;
        let manifest = self.manifest(&connection, reference).await?;
        let parts: Vec<_> = [&manifest.config].into_iter().chain(&manifest.layers).map(sized).collect::<Result<_>>()?;
        let total = parts.iter().fold(0_u64, |total, (_, size)| total.saturating_add(*size));
        if total > self.settings.largest_image.get() {
            let message =
                format!("image `{reference}` has {}, more than {}", ByteCount(total), self.settings.largest_image);
            return Err(Error::invalid("image", message));
        }
        let counter = Counter { total, fetched: AtomicU64::new(0), tell: &progress };
        let fetches: Vec<_> =
            parts.into_iter().map(|(part, size)| self.fetch(&connection, part, size, &counter)).collect();
        let mut paths: Vec<PathBuf> = stream::iter(fetches).buffered(AT_ONCE).try_collect().await?;
        paths.push(self.part(&manifest.digest)?);
        let image = self.lay_out(&manifest, paths)?;
        drop(beside);
        self.shrink()?;
        Ok(image)
    }

    /// From the reference to the manifest of this machine's image.
    async fn manifest(&self, connection: &Connection, reference: &ImageReference) -> Result<Manifest> {
        let mut wanted = reference.version().to_owned();
        let mut expected = reference.digest().map(ToOwned::to_owned);
        for _ in 0..=DEEPEST_INDEX {
            let bytes = self.document(connection, &wanted, expected.as_deref()).await?;
            let digest = format!("sha256:{}", hex(&Sha256::digest(&bytes)));
            let document: ImageDocument = serde_json::from_slice(&bytes)
                .map_err(|error| connection.refused(&format!("has no manifest at `{wanted}`")).with_source(error))?;
            match document.lead().map_err(|error| error.with_field("image"))? {
                ImageLead::Manifest { config, layers } => {
                    self.keep(&digest, &bytes)?;
                    return Ok(Manifest { digest, bytes: bytes.len() as u64, config, layers });
                }
                ImageLead::Further(descriptor) => {
                    self.part(&descriptor.digest).map_err(|error| error.with_field("image"))?;
                    wanted.clone_from(&descriptor.digest);
                    expected = Some(descriptor.digest);
                }
            }
        }
        Err(connection.refused(&format!("hides the manifest of `{reference}` behind too many others")))
    }

    /// A manifest or index: from the cache, where its digest says that it cannot have changed.
    async fn document(&self, connection: &Connection, wanted: &str, expected: Option<&str>) -> Result<Vec<u8>> {
        if let Some(digest) = expected
            && let Ok(bytes) = fs::read(self.part(digest)?)
            && compare(digest, &hex(&Sha256::digest(&bytes))).is_ok()
        {
            return Ok(bytes);
        }
        let part = format!("manifests/{wanted}");
        let mut attempts = Attempts::new(self.patience());
        let bytes = loop {
            let fetched = async {
                let response = connection.get(&part, MANIFESTS, 0).await?;
                connection.bounded(response, LARGEST_DOCUMENT, &part).await
            };
            match fetched.await {
                Ok(bytes) => break bytes,
                Err(failure) => attempts.after(failure).await?,
            }
        };
        if let Some(digest) = expected {
            compare(digest, &hex(&Sha256::digest(&bytes))).map_err(|error| error.with_field("image"))?;
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
        let _turn = self.turn(&part.digest).await;
        let path = if let Some(path) = self.used(&part.digest, size)? {
            path
        } else {
            download(connection, &part, size, &self.partial(&part.digest)?, self.patience(), &report).await?;
            self.complete(&part.digest)?
        };
        report(size);
        Ok(path)
    }

    /// A layout with the parts of one image. They are the cache's own files, so that they stay when it is shrunk.
    fn lay_out(&self, manifest: &Manifest, parts: Vec<PathBuf>) -> Result<PulledImage> {
        let layout = self.new_layout();
        let image = PulledImage { layout: layout.clone(), digest: manifest.digest.clone(), parts };
        let blobs = layout.join("blobs/sha256");
        let write = || {
            fs::create_dir_all(&blobs)?;
            for part in &image.parts {
                match fs::hard_link(part, blobs.join(part.file_name().unwrap_or_default())) {
                    // Images have the same layer twice, when it is empty.
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                    outcome => outcome?,
                }
            }
            let kind = "application/vnd.oci.image.manifest.v1+json";
            let entry = json!({ "mediaType": kind, "digest": manifest.digest, "size": manifest.bytes });
            let index = json!({ "schemaVersion": 2, "manifests": [entry] });
            fs::write(layout.join("index.json"), index.to_string())?;
            fs::write(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())
        };
        write().map_err(|error| failed("lay out an image", error))?;
        Ok(image)
    }
}

/// A part and how long it is. Without a length there would be no end to what may come.
fn sized(part: &ImageDescriptor) -> Result<(ImageDescriptor, u64)> {
    let no_size = || Error::invalid("image", format!("part `{}` of the image has no size", part.digest));
    Ok((part.clone(), part.size.ok_or_else(no_size)?))
}

/// Adds up what was fetched of all parts.
struct Counter<'a> {
    total: u64,
    fetched: AtomicU64,
    tell: &'a (dyn Fn(PullProgress) + Sync),
}

impl Counter<'_> {
    /// Of one part so much is here now. One that starts over has less than it had.
    fn count(&self, counted: &AtomicU64, have: u64) {
        let more = have.wrapping_sub(counted.swap(have, Ordering::Relaxed));
        let fetched = self.fetched.fetch_add(more, Ordering::Relaxed).wrapping_add(more);
        (self.tell)(PullProgress { fetched, total: self.total });
    }
}
