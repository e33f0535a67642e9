//! Blocking access to the objects of one pack.

use std::{
    fs::File,
    io::{self, Read as _, Seek, SeekFrom, Write},
    sync::Arc,
};

use futures::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart, path::Path};
use sandbar_core::{Error, ErrorCode, Result};
use tokio::runtime::Runtime;

use super::{
    directory::{NewObject, ObjectDirectory},
    manifest::PackObject,
    target::Target,
};

/// Size of one part of an upload. With at most 10 000 parts, an object may have 160 GB.
const PART: usize = 16 << 20;
/// Concurrent part uploads; bounds the memory of an upload.
const IN_FLIGHT: usize = 2;
const READ_BUFFER: usize = 256 << 10;
/// Limit on the objects that a store lists for one pack: two for each snapshot.
const MAX_OBJECTS: usize = 1 << 20;

/// Objects below one prefix.
#[derive(Debug)]
pub(super) struct Objects {
    store: Store,
    prefix: Path,
    target: String,
}

#[derive(Debug)]
enum Store {
    Directory(ObjectDirectory),
    Remote(RemoteStore),
}

#[derive(Debug)]
struct RemoteStore {
    store: Arc<dyn ObjectStore>,
    runtime: Runtime,
}

impl Objects {
    pub(super) fn open(target: &Target, prefix: &str) -> Result<Self> {
        let path = Path::parse(prefix).map_err(|error| {
            Error::invalid(
                "prefix",
                format!("prefix `{}` is not a valid path", prefix.escape_debug()),
            )
            .with_source(error)
        })?;
        if path.as_ref().is_empty() {
            return Err(Error::invalid("prefix", "prefix is empty")
                .with_hint("use a separate prefix for each pack"));
        }
        let store = match target {
            Target::Directory(directory) => {
                Store::Directory(ObjectDirectory::open(directory).map_err(|error| {
                    Error::io(format!("open directory `{}`", directory.display()), error)
                })?)
            }
            Target::S3(s3) => Store::Remote(RemoteStore {
                store: s3.open()?,
                runtime: tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .thread_name("sandbar-pack")
                    .enable_all()
                    .build()
                    .map_err(|error| Error::io("start a runtime for uploads", error))?,
            }),
        };
        Ok(Self {
            store,
            prefix: path,
            target: target.to_string(),
        })
    }

    /// Returns the location of the pack, for messages.
    pub(super) fn place(&self) -> String {
        format!("`{}` in {}", self.prefix, self.target)
    }

    fn path(&self, name: &str) -> Result<Path> {
        // Names come from an untrusted manifest.
        Path::parse(format!("{}/{name}", self.prefix)).map_err(|error| {
            Error::new(
                ErrorCode::InvalidArgument,
                format!("`{name}` is not a valid object name"),
            )
            .with_source(error)
        })
    }

    /// Reads a small object; `None` when it does not exist. One larger than `limit` is an error.
    pub(super) fn get(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let keep = |chunk: &[u8]| {
            bytes.extend_from_slice(chunk);
            Ok(())
        };
        match self.read(name, limit, keep) {
            Ok(size) if size > limit => Err(Error::new(
                ErrorCode::InvalidArgument,
                format!(
                    "object `{name}` of the pack {} is larger than {limit} bytes",
                    self.place()
                ),
            )),
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.code() == ErrorCode::FileNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes the content of an object to `keep`, and returns its size. Stops after more than
    /// `limit` bytes; the size is then larger than the limit.
    fn read(
        &self,
        name: &str,
        limit: u64,
        mut keep: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<u64> {
        let path = self.path(name)?;
        let mut size = 0;
        match &self.store {
            Store::Directory(directory) => {
                let broken = |error| self.broken("read", name, error);
                let mut file = directory.read(path.as_ref()).map_err(broken)?;
                let mut buffer = vec![0; READ_BUFFER];
                loop {
                    let got = file.read(&mut buffer).map_err(broken)?;
                    size += got as u64;
                    if got == 0 || size > limit {
                        return Ok(size);
                    }
                    keep(&buffer[..got])?;
                }
            }
            Store::Remote(remote) => remote.runtime.block_on(async {
                let failed = |error| self.failed("read", name, error);
                let got = remote.store.get(&path).await.map_err(failed)?;
                let mut stream = got.into_stream();
                while let Some(chunk) = stream.next().await {
                    let chunk = chunk.map_err(failed)?;
                    size += chunk.len() as u64;
                    if size > limit {
                        break;
                    }
                    keep(&chunk)?;
                }
                Ok(size)
            }),
        }
    }

    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let path = self.path(name)?;
        match &self.store {
            Store::Directory(directory) => directory
                .create(path.as_ref())
                .and_then(|mut object| match object.write_all(&bytes) {
                    Ok(()) => object.finish(),
                    Err(error) => {
                        object.abort();
                        Err(error)
                    }
                })
                .map_err(|error| self.broken("write", name, error)),
            Store::Remote(remote) => {
                let put = remote.store.put(&path, PutPayload::from(bytes));
                let put = remote.runtime.block_on(put);
                put.map(drop)
                    .map_err(|error| self.failed("write", name, error))
            }
        }
    }

    /// Deletes an object. A missing one is success.
    pub(super) fn delete(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        match &self.store {
            Store::Directory(directory) => directory
                .delete(path.as_ref())
                .map_err(|error| self.broken("delete", name, error)),
            Store::Remote(remote) => self.delete_path(remote, &path),
        }
    }

    fn delete_path(&self, remote: &RemoteStore, path: &Path) -> Result<()> {
        match remote.runtime.block_on(remote.store.delete(path)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", path.as_ref(), error)),
        }
    }

    /// Deletes everything below the prefix, also unfinished uploads of a killed process.
    pub(super) fn delete_all(&self) -> Result<()> {
        let prefix = self.prefix.as_ref();
        let remote = match &self.store {
            Store::Directory(directory) => {
                return directory
                    .delete_all(prefix)
                    .map_err(|error| self.broken("delete", prefix, error));
            }
            Store::Remote(remote) => remote,
        };
        let mut listing = remote.store.list(Some(&self.prefix));
        for _ in 0..MAX_OBJECTS {
            let Some(object) = remote.runtime.block_on(listing.next()) else {
                return Ok(());
            };
            let object = object.map_err(|error| self.failed("list", prefix, error))?;
            if !object.location.prefix_matches(&self.prefix) {
                let message = format!("{} lists an object outside of `{prefix}`", self.target);
                return Err(Error::new(ErrorCode::Unavailable, message));
            }
            self.delete_path(remote, &object.location)?;
        }
        Err(Error::new(
            ErrorCode::Unavailable,
            format!(
                "{} lists more than {MAX_OBJECTS} objects below `{prefix}`",
                self.target
            ),
        ))
    }

    /// Starts the upload of an object of any size.
    pub(super) fn upload(&self, name: &str) -> Result<Upload<'_>> {
        let path = self.path(name)?;
        let content = match &self.store {
            Store::Directory(directory) => UploadContent::File(
                directory
                    .create(path.as_ref())
                    .map_err(|error| self.broken("write", name, error))?,
            ),
            Store::Remote(remote) => {
                let begun = remote.runtime.block_on(remote.store.put_multipart(&path));
                let upload = begun.map_err(|error| self.failed("write", name, error))?;
                UploadContent::Parts {
                    remote,
                    parts: WriteMultipart::new_with_chunk_size(upload, PART),
                }
            }
        };
        Ok(Upload {
            objects: self,
            name: name.to_owned(),
            content,
            hasher: blake3::Hasher::new(),
            size: 0,
        })
    }

    /// Downloads an object into an unlinked temporary file and checks its hash against the
    /// manifest.
    pub(super) fn fetch(&self, object: &PackObject) -> Result<File> {
        let spooled = |error| Error::io("store a downloaded object in `/var/tmp`", error);
        let mut file = tempfile::tempfile_in("/var/tmp").map_err(spooled)?;
        let mut hasher = blake3::Hasher::new();
        let size = self.read(&object.name, object.size, |chunk| {
            hasher.update(chunk);
            file.write_all(chunk).map_err(spooled)
        })?;
        if size != object.size || hasher.finalize().to_hex().as_str() != object.blake3 {
            let message = format!(
                "object `{}` of the pack {} is damaged",
                object.name,
                self.place()
            );
            return Err(
                Error::new(ErrorCode::InvalidArgument, message).with_hint("pack the session again")
            );
        }
        file.seek(SeekFrom::Start(0)).map_err(spooled)?;
        Ok(file)
    }

    /// Error of an object in a directory.
    fn broken(&self, verb: &str, name: &str, error: io::Error) -> Error {
        let code = match error.kind() {
            io::ErrorKind::NotFound => ErrorCode::FileNotFound,
            io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorCode::StorageFull,
            _ => ErrorCode::Unavailable,
        };
        Error::new(code, format!("{verb} object `{name}` in {}", self.target)).with_source(error)
    }

    fn failed(&self, verb: &str, name: &str, error: object_store::Error) -> Error {
        let code = match &error {
            object_store::Error::NotFound { .. } => ErrorCode::FileNotFound,
            object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. } => ErrorCode::PermissionDenied,
            _ if is_full(&error) => ErrorCode::StorageFull,
            _ => ErrorCode::Unavailable,
        };
        Error::new(code, format!("{verb} object `{name}` in {}", self.target)).with_source(error)
    }
}

/// Returns whether the cause of an error is a full disk.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            );
        }
        cause = error.source();
    }
    false
}

/// Upload of an object, which exists only after [`finish`](Self::finish) returns.
#[derive(Debug)]
pub(super) struct Upload<'a> {
    objects: &'a Objects,
    name: String,
    content: UploadContent<'a>,
    hasher: blake3::Hasher,
    size: u64,
}

#[derive(Debug)]
enum UploadContent<'a> {
    File(NewObject),
    Parts {
        remote: &'a RemoteStore,
        parts: WriteMultipart,
    },
}

impl Upload<'_> {
    pub(super) fn finish(self) -> Result<PackObject> {
        let Self {
            objects,
            name,
            content,
            hasher,
            size,
        } = self;
        match content {
            UploadContent::File(file) => file
                .finish()
                .map_err(|error| objects.broken("write", &name, error))?,
            UploadContent::Parts { remote, parts } => {
                remote
                    .runtime
                    .block_on(parts.finish())
                    .map_err(|error| objects.failed("write", &name, error))?;
            }
        }
        Ok(PackObject {
            name,
            size,
            blake3: hasher.finalize().to_hex().to_string(),
        })
    }

    /// Aborts the upload; the store discards the uploaded parts.
    pub(super) fn abort(self) {
        match self.content {
            UploadContent::File(file) => file.abort(),
            UploadContent::Parts { remote, parts } => {
                if let Err(error) = remote.runtime.block_on(parts.abort()) {
                    tracing::warn!(%error, name = self.name, "could not abort an upload");
                }
            }
        }
    }
}

impl Write for Upload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.content {
            UploadContent::File(file) => file.write_all(bytes)?,
            UploadContent::Parts { remote, parts } => remote
                .runtime
                .block_on(async {
                    parts.wait_for_capacity(IN_FLIGHT).await?;
                    parts.write(bytes);
                    Ok::<(), object_store::Error>(())
                })
                .map_err(|error| {
                    io::Error::new(
                        if is_full(&error) {
                            io::ErrorKind::StorageFull
                        } else {
                            io::ErrorKind::Other
                        },
                        error,
                    )
                })?,
        }
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
