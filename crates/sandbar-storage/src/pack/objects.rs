//! Blocking access to the objects of one pack.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    sync::Arc,
};

use futures::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart, path::Path};
use sandbar_core::{Error, ErrorCode, Result};
use tokio::runtime::Runtime;

use super::{manifest::PackObject, target::Target};

/// Size of one part of an upload. With at most 10 000 parts, an object may have 160 GB.
const PART: usize = 16 << 20;
/// Concurrent part uploads; bounds the memory of an upload.
const IN_FLIGHT: usize = 2;

/// Objects below one prefix.
#[derive(Debug)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    target: String,
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
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("sandbar-pack")
            .enable_all()
            .build()
            .map_err(|error| Error::io("start a runtime for uploads", error))?;
        Ok(Self {
            store: target.open()?,
            prefix: path,
            target: target.to_string(),
            runtime,
        })
    }

    /// Returns the prefix as a relative path without `.` and `..`.
    pub(super) fn prefix(&self) -> &str {
        self.prefix.as_ref()
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

    /// Reads a small object; `None` when it does not exist.
    pub(super) fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.path(name)?;
        let got = self
            .runtime
            .block_on(async { self.store.get(&path).await?.bytes().await });
        match got {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", name, error)),
        }
    }

    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let path = self.path(name)?;
        let put = self
            .runtime
            .block_on(self.store.put(&path, PutPayload::from(bytes)));
        put.map(drop)
            .map_err(|error| self.failed("write", name, error))
    }

    /// Deletes an object. A missing one is success.
    pub(super) fn delete(&self, name: &str) -> Result<()> {
        self.delete_path(&self.path(name)?)
    }

    fn delete_path(&self, path: &Path) -> Result<()> {
        match self.runtime.block_on(self.store.delete(path)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", path.as_ref(), error)),
        }
    }

    /// Deletes everything below the prefix.
    pub(super) fn delete_all(&self) -> Result<()> {
        let listed = self
            .runtime
            .block_on(self.store.list(Some(&self.prefix)).collect::<Vec<_>>());
        for object in listed {
            let object =
                object.map_err(|error| self.failed("list", self.prefix.as_ref(), error))?;
            self.delete_path(&object.location)?;
        }
        Ok(())
    }

    /// Starts the upload of an object of any size.
    pub(super) fn upload(&self, name: &str) -> Result<Upload<'_>> {
        let path = self.path(name)?;
        let begun = self.runtime.block_on(self.store.put_multipart(&path));
        let upload = begun.map_err(|error| self.failed("write", name, error))?;
        Ok(Upload {
            objects: self,
            name: name.to_owned(),
            parts: WriteMultipart::new_with_chunk_size(upload, PART),
            hasher: blake3::Hasher::new(),
            size: 0,
        })
    }

    /// Downloads an object into an unlinked temporary file and checks its hash against the
    /// manifest.
    pub(super) fn fetch(&self, object: &PackObject) -> Result<File> {
        let path = self.path(&object.name)?;
        let spooled = |error| Error::io("store a downloaded object in `/var/tmp`", error);
        let mut file = tempfile::tempfile_in("/var/tmp").map_err(spooled)?;
        let mut hasher = blake3::Hasher::new();
        let mut size = 0;
        self.runtime.block_on(async {
            let got = self
                .store
                .get(&path)
                .await
                .map_err(|error| self.failed("read", &object.name, error))?;
            let mut stream = got.into_stream();
            while let Some(chunk) = stream.next().await {
                let chunk = chunk.map_err(|error| self.failed("read", &object.name, error))?;
                size += chunk.len() as u64;
                if size > object.size {
                    break;
                }
                hasher.update(&chunk);
                file.write_all(&chunk).map_err(spooled)?;
            }
            Ok::<(), Error>(())
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
    parts: WriteMultipart,
    hasher: blake3::Hasher,
    size: u64,
}

impl Upload<'_> {
    pub(super) fn finish(self) -> Result<PackObject> {
        let Self {
            objects,
            name,
            parts,
            hasher,
            size,
        } = self;
        objects
            .runtime
            .block_on(parts.finish())
            .map_err(|error| objects.failed("write", &name, error))?;
        Ok(PackObject {
            name,
            size,
            blake3: hasher.finalize().to_hex().to_string(),
        })
    }

    /// Aborts the upload; the store discards the uploaded parts.
    pub(super) fn abort(self) {
        let Self {
            objects,
            name,
            parts,
            ..
        } = self;
        if let Err(error) = objects.runtime.block_on(parts.abort()) {
            tracing::warn!(%error, name, "could not abort an upload");
        }
    }
}

impl Write for Upload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.objects
            .runtime
            .block_on(async {
                self.parts.wait_for_capacity(IN_FLIGHT).await?;
                self.parts.write(bytes);
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
            })?;
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
