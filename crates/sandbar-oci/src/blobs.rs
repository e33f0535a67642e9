//! Blobs of an image on disk, and their digests.

use std::{
    fs::File,
    io::Read,
    os::fd::{AsRawFd as _, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{self, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, Result};
use sandbar_tree::open_confined;
use serde::{Deserialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// Size limit of a manifest or configuration.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 4 << 20;

/// Directory of an image. Paths in it come from the image and are resolved confined to it.
#[derive(Debug)]
pub(crate) struct Blobs {
    directory: OwnedFd,
}

/// Descriptor of a blob, as in the OCI specification.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageDescriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    #[serde(default)]
    pub(crate) size: Option<u64>,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    pub(crate) annotations: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) architecture: String,
}

impl Blobs {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::open(directory, flags, Mode::empty())
            .map_err(|errno| Error::io(format!("open `{}`", directory.display()), errno.into()))?;
        Ok(Self { directory })
    }

    /// Opens a regular file of the image. Symbolic links are followed inside the image, for old
    /// docker-archives.
    pub(crate) fn file(&self, path: &str) -> Result<File> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let unreadable = |errno: Errno| {
            damaged(format!("image has no readable file `{path}`"))
                .with_source(std::io::Error::from(errno))
        };
        // Looked at before it is opened for reading, which has effects on devices.
        let found =
            open_confined(&self.directory, path, OFlags::PATH, resolve).map_err(unreadable)?;
        let kind = FileType::from_raw_mode(fs::fstat(&found).map_err(unreadable)?.st_mode);
        if kind != FileType::RegularFile {
            return Err(damaged(format!(
                "`{path}` of the image is not a regular file"
            )));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = format!("/proc/self/fd/{}", found.as_raw_fd());
        let file = fs::open(opened, flags, Mode::empty()).map_err(unreadable)?;
        Ok(file.into())
    }

    /// Reads a JSON document, checking its digest if given.
    pub(crate) fn document<T: DeserializeOwned>(
        &self,
        path: &str,
        digest: Option<&str>,
    ) -> Result<T> {
        let mut bytes = Vec::new();
        self.file(path)?
            .take(MAX_DOCUMENT_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::io(format!("read `{path}` of the image"), error))?;
        if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
            return Err(damaged(format!(
                "document `{path}` of the image is larger than 4 MiB"
            )));
        }
        if let Some(digest) = digest {
            compare(digest, &hex(&Sha256::digest(&bytes)))?;
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            damaged(format!("document `{path}` of the image is malformed")).with_source(error)
        })
    }

    /// Reads the document of a descriptor.
    pub(crate) fn described<T: DeserializeOwned>(&self, descriptor: &ImageDescriptor) -> Result<T> {
        let path = blob_path(&descriptor.digest)?;
        Self::require_size(descriptor, &self.file(&path)?)?;
        self.document(&path, Some(&descriptor.digest))
    }

    /// Opens a blob as a stream that computes its digest.
    pub(crate) fn stream(&self, descriptor: &ImageDescriptor) -> Result<HashingReader<File>> {
        let file = self.file(&blob_path(&descriptor.digest)?)?;
        Self::require_size(descriptor, &file)?;
        Ok(HashingReader::new(file))
    }

    fn require_size(descriptor: &ImageDescriptor, file: &File) -> Result<()> {
        if let (Some(size), Ok(metadata)) = (descriptor.size, file.metadata())
            && metadata.len() != size
        {
            let message = format!(
                "blob `{}` has {} bytes, not {size}",
                descriptor.digest,
                metadata.len()
            );
            return Err(damaged(message));
        }
        Ok(())
    }
}

/// Returns the path of a blob in a layout.
pub(crate) fn blob_path(digest: &str) -> Result<String> {
    match digest.split_once(':') {
        Some(("sha256", hex))
            if hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            Ok(format!("blobs/sha256/{hex}"))
        }
        Some((algorithm, _)) if algorithm != "sha256" => Err(damaged(format!(
            "digest `{digest}` has an unsupported algorithm, only sha256 is supported"
        ))),
        _ => Err(damaged(format!("`{digest}` is not a valid digest"))),
    }
}

/// Checks the computed digest of a blob.
pub(crate) fn compare(digest: &str, computed: &str) -> Result<()> {
    if digest
        .strip_prefix("sha256:")
        .is_some_and(|expected| expected.eq_ignore_ascii_case(computed))
    {
        return Ok(());
    }
    Err(damaged(format!(
        "blob `{digest}` of the image is damaged: its digest is sha256:{computed}"
    ))
    .with_hint("copy or download the image again"))
}

pub(crate) fn damaged(message: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

/// Reader that computes the SHA-256 of its data.
#[derive(Debug)]
pub(crate) struct HashingReader<R> {
    stream: R,
    hasher: Sha256,
}

impl<R: Read> HashingReader<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream,
            hasher: Sha256::new(),
        }
    }

    /// Reads to the end and returns the digest of all data; `None` when more than `limit` bytes are
    /// left.
    pub(crate) fn finish(mut self, limit: u64) -> std::io::Result<Option<String>> {
        let mut rest = (&mut self).take(limit.saturating_add(1));
        if std::io::copy(&mut rest, &mut std::io::sink())? > limit {
            return Ok(None);
        }
        Ok(Some(hex(&self.hasher.finalize())))
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let got = self.stream.read(buffer)?;
        self.hasher.update(&buffer[..got]);
        Ok(got)
    }
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
