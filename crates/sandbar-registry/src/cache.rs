//! Parts of images on this machine's disk, by their digests.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use sandbar_core::{ByteCount, Error, Result};
use sandbar_storage::{import::blob_path, remove_tree};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, RwLock as AsyncRwLock};
use uuid::Uuid;

use crate::patience::Patience;

/// What a cache is told.
#[derive(Clone, Debug)]
pub struct ImageCacheSettings {
    /// Certificates in PEM that registries are trusted by, beside the system's.
    pub trusted_certificates: Option<PathBuf>,
    /// Parts beyond this are removed, those first that were not used for longest.
    pub limit: ByteCount,
    /// The largest image that is fetched, as it is sent.
    pub largest_image: ByteCount,
    /// Before something that failed is tried again for the first time.
    pub pause: Duration,
}

impl Default for ImageCacheSettings {
    fn default() -> Self {
        Self {
            trusted_certificates: None,
            limit: ByteCount::gib(16),
            largest_image: ByteCount::gib(32),
            pause: Duration::from_millis(250),
        }
    }
}

/// A directory with parts of images. One process has it at a time.
#[derive(Debug)]
pub struct ImageCache {
    directory: PathBuf,
    pub(crate) settings: ImageCacheSettings,
    /// Who fetches what: nothing is fetched twice at once.
    under_way: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
    /// Held beside others by pulls, and alone by who removes parts.
    pub(crate) in_use: AsyncRwLock<()>,
}

impl ImageCache {
    /// Nothing is made on disk before the first pull.
    pub fn new(directory: impl Into<PathBuf>, settings: ImageCacheSettings) -> Self {
        Self { directory: directory.into(), settings, under_way: Mutex::default(), in_use: AsyncRwLock::default() }
    }

    pub(crate) fn patience(&self) -> Patience {
        Patience { attempts: 5, pause: self.settings.pause }
    }

    /// Where the complete part with this digest is, or would be.
    pub(crate) fn part(&self, digest: &str) -> Result<PathBuf> {
        Ok(self.directory.join(blob_path(digest)?))
    }

    /// Where it is put together.
    pub(crate) fn partial(&self, digest: &str) -> Result<PathBuf> {
        let complete = self.part(digest)?;
        let name = complete.file_name().unwrap_or_default();
        Ok(self.directory.join("partial").join(name))
    }

    /// Marks a part as used. `None` when it is not there whole.
    pub(crate) fn used(&self, digest: &str, size: u64) -> Result<Option<PathBuf>> {
        let path = self.part(digest)?;
        match File::options().write(true).open(&path) {
            Ok(file) if file.metadata().is_ok_and(|metadata| metadata.len() == size) => {
                // The time only says what goes first when there is too much.
                let _ = file.set_modified(SystemTime::now());
                Ok(Some(path))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("open a part of an image", error)),
        }
    }

    /// A part that was put together appears in its place.
    pub(crate) fn complete(&self, digest: &str) -> Result<PathBuf> {
        let place = self.part(digest)?;
        fs::rename(self.partial(digest)?, &place).map_err(|error| failed("keep a part of an image", error))?;
        Ok(place)
    }

    /// A small part whose bytes are here already.
    pub(crate) fn keep(&self, digest: &str, bytes: &[u8]) -> Result<PathBuf> {
        let partial = self.partial(digest)?;
        fs::write(&partial, bytes).map_err(|error| failed("keep a part of an image", error))?;
        self.complete(digest)
    }

    pub(crate) fn prepare(&self) -> Result<()> {
        for below in ["blobs/sha256", "partial", "pulls"] {
            let path = self.directory.join(below);
            fs::create_dir_all(&path).map_err(|error| failed(&format!("make `{}`", path.display()), error))?;
        }
        Ok(())
    }

    /// A directory for one pull.
    pub(crate) fn new_layout(&self) -> PathBuf {
        self.directory.join("pulls").join(Uuid::new_v4().simple().to_string())
    }

    /// Removes what an earlier process that was killed left of its pulls.
    pub fn forget_pulls(&self) -> Result<()> {
        let pulls = self.directory.join("pulls");
        if pulls.exists() { remove_tree(&pulls) } else { Ok(()) }
    }

    /// Waits until nobody else works on a part.
    pub(crate) async fn turn(&self, digest: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Removes parts beyond the limit, unless another pull is under way: then that one does it. Layouts keep what they
    /// have.
    pub(crate) fn shrink(&self) -> Result<()> {
        let Ok(_alone) = self.in_use.try_write() else { return Ok(()) };
        let mut parts = files_below(&self.directory.join("blobs/sha256"))?;
        // What was given up long ago is not gone on with; what is under way is new.
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
                Err(error) => return Err(failed(&format!("remove `{}`", part.path.display()), error)),
            }
        }
        Ok(())
    }
}

struct KeptFile {
    path: PathBuf,
    size: u64,
    used: SystemTime,
}

fn files_below(directory: &Path) -> Result<Vec<KeptFile>> {
    let unreadable = |error| failed(&format!("read `{}`", directory.display()), error);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        // Somebody else may have removed it meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        files.push(KeptFile { path: entry.path(), size: metadata.len(), used });
    }
    Ok(files)
}

pub(crate) fn failed(what: &str, error: io::Error) -> Error {
    Error::io(format!("{what} in the cache of images"), error)
}
