//! Cache of image blobs on disk, by digest.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, Weak},
    time::{Duration, SystemTime},
};

use sandbar_core::{ByteCount, Error, MutexExt as _, Result};
use sandbar_tree::remove_tree;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, RwLock as AsyncRwLock};
use uuid::Uuid;

use crate::{blobs::blob_path, retry::RetryPolicy};

/// Settings of a cache.
#[derive(Clone, Debug)]
pub struct ImageCacheSettings {
    /// Additional trusted CA certificates for registries, in PEM.
    pub trusted_certificates: Option<PathBuf>,
    /// Size limit of the cache; the least recently used blobs are removed first.
    pub limit: ByteCount,
    /// Size limit of one image, compressed.
    pub max_image_size: ByteCount,
    /// Time limit of one pull. The next one continues with the blobs that were fetched.
    pub max_duration: Duration,
    /// Delay before the first retry.
    pub retry_delay: Duration,
}

impl Default for ImageCacheSettings {
    fn default() -> Self {
        Self {
            trusted_certificates: None,
            limit: ByteCount::gib(16),
            max_image_size: ByteCount::gib(32),
            max_duration: Duration::from_hours(6),
            retry_delay: Duration::from_millis(250),
        }
    }
}

/// Directory of image blobs, used by one process at a time.
#[derive(Debug)]
pub struct ImageCache {
    directory: PathBuf,
    pub(crate) settings: ImageCacheSettings,
    /// Locks of blobs being downloaded, by digest, so that no blob is downloaded twice
    /// concurrently.
    under_way: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
    /// Held shared by pulls, and exclusively while blobs are removed.
    pub(crate) in_use: AsyncRwLock<()>,
}

impl ImageCache {
    /// Creates a cache; nothing is written to disk before the first pull.
    pub fn new(directory: impl Into<PathBuf>, settings: ImageCacheSettings) -> Self {
        Self {
            directory: directory.into(),
            settings,
            under_way: Mutex::default(),
            in_use: AsyncRwLock::default(),
        }
    }

    pub(crate) fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            attempts: 5,
            delay: self.settings.retry_delay,
        }
    }

    /// Returns the path of the complete blob of a digest, whether or not it exists.
    pub(crate) fn blob_file(&self, digest: &str) -> Result<PathBuf> {
        Ok(self.directory.join(blob_path(digest)?))
    }

    /// Returns the path of the partial download.
    pub(crate) fn partial(&self, digest: &str) -> Result<PathBuf> {
        let complete = self.blob_file(digest)?;
        let name = complete.file_name().unwrap_or_default();
        Ok(self.directory.join("partial").join(name))
    }

    /// Updates the time of last use. `None` when the blob is not complete.
    pub(crate) fn mark_used(&self, digest: &str, size: u64) -> Result<Option<PathBuf>> {
        let path = self.blob_file(digest)?;
        match File::options().write(true).open(&path) {
            Ok(file) if file.metadata().is_ok_and(|metadata| metadata.len() == size) => {
                // The time only decides the order of removal.
                let _ = file.set_modified(SystemTime::now());
                Ok(Some(path))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("open a blob", error)),
        }
    }

    /// Moves a finished download to its final path.
    pub(crate) fn complete(&self, digest: &str) -> Result<PathBuf> {
        let place = self.blob_file(digest)?;
        fs::rename(self.partial(digest)?, &place).map_err(|error| failed("store a blob", error))?;
        Ok(place)
    }

    /// Stores a small blob.
    pub(crate) fn put(&self, digest: &str, bytes: &[u8]) -> Result<PathBuf> {
        let partial = self.partial(digest)?;
        fs::write(&partial, bytes).map_err(|error| failed("store a blob", error))?;
        self.complete(digest)
    }

    pub(crate) fn prepare(&self) -> Result<()> {
        for below in ["blobs/sha256", "partial", "pulls"] {
            let path = self.directory.join(below);
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .map_err(|error| failed(&format!("create `{}`", path.display()), error))?;
        }
        Ok(())
    }

    /// Returns a new directory for one pull.
    pub(crate) fn new_layout(&self) -> PathBuf {
        self.directory
            .join("pulls")
            .join(Uuid::new_v4().simple().to_string())
    }

    /// Removes the layouts left by a killed process.
    pub fn delete_pulls(&self) -> Result<()> {
        let pulls = self.directory.join("pulls");
        if pulls.exists() {
            remove_tree(&pulls)
        } else {
            Ok(())
        }
    }

    /// Waits for the lock of a blob.
    pub(crate) async fn lock_blob(&self, digest: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut under_way = self.under_way.lock_unpoisoned();
            under_way.retain(|_, turn| turn.strong_count() > 0);
            let known = under_way.get(digest).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::new(AsyncMutex::new(()));
                under_way.insert(digest.to_owned(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }

    /// Removes blobs beyond the limit, unless another pull is running, which will do it. Existing
    /// layouts are hard links and keep their blobs.
    pub(crate) fn shrink(&self) -> Result<()> {
        let Ok(_alone) = self.in_use.try_write() else {
            return Ok(());
        };
        let mut parts = files_below(&self.directory.join("blobs/sha256"))?;
        // Abandoned partial downloads are old and go first; running ones are new.
        parts.extend(files_below(&self.directory.join("partial"))?);
        parts.sort_by_key(|part| part.used);
        let mut total: u64 = parts.iter().map(|part| part.size).sum();
        for part in parts {
            if total <= self.settings.limit.get() {
                break;
            }
            match fs::remove_file(&part.path) {
                Ok(()) => total -= part.size,
                Err(error) if error.kind() == io::ErrorKind::NotFound => total -= part.size,
                Err(error) => {
                    return Err(failed(&format!("remove `{}`", part.path.display()), error));
                }
            }
        }
        Ok(())
    }
}

struct CachedFile {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

fn files_below(directory: &Path) -> Result<Vec<CachedFile>> {
    let unreadable = |error| failed(&format!("read `{}`", directory.display()), error);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        // May have been removed concurrently.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        files.push(CachedFile {
            path: entry.path(),
            size: metadata.len(),
            used,
        });
    }
    Ok(files)
}

pub(crate) fn failed(what: &str, error: io::Error) -> Error {
    Error::io(format!("{what} in the image cache"), error)
}
