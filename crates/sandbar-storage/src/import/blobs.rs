//! The parts of an image by their digests.

use std::{fs::File, io::Read, os::fd::OwnedFd, path::Path};

use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use sandbar_core::{Error, ErrorCode, Result};

use crate::confine::open_confined;
use serde::{Deserialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// Manifests and configurations are small; what is larger is not one.
pub const LARGEST_DOCUMENT: u64 = 4 << 20;

/// A directory with the parts of an image. Names in it come from the image and lead nowhere else.
#[derive(Debug)]
pub(super) struct Blobs {
    directory: OwnedFd,
}

/// A reference to a part, as OCI writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageDescriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: String,
    #[serde(default)]
    pub size: Option<u64>,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    pub(crate) annotations: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(super) os: String,
    #[serde(default)]
    pub(super) architecture: String,
}

impl Blobs {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::open(directory, flags, Mode::empty())
            .map_err(|errno| Error::io(format!("open `{}`", directory.display()), errno.into()))?;
        Ok(Self { directory })
    }

    /// A file of the image. Links inside the image are followed, as old docker-archives have them.
    pub(super) fn file(&self, path: &str) -> Result<File> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = open_confined(&self.directory, path, flags, resolve).map_err(|errno| {
            let error = std::io::Error::from(errno);
            Error::new(ErrorCode::InvalidArgument, format!("image has no readable part `{path}`")).with_source(error)
        })?;
        Ok(file.into())
    }

    /// A document, checked against its digest where there is one.
    pub(super) fn document<T: DeserializeOwned>(&self, path: &str, digest: Option<&str>) -> Result<T> {
        let mut bytes = Vec::new();
        self.file(path)?
            .take(LARGEST_DOCUMENT + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::io(format!("read `{path}` of the image"), error))?;
        if bytes.len() as u64 > LARGEST_DOCUMENT {
            return Err(damaged(format!("part `{path}` of the image is larger than 4 MiB")));
        }
        if let Some(digest) = digest {
            compare(digest, &hex(&Sha256::digest(&bytes)))?;
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| damaged(format!("part `{path}` of the image is not what it should be")).with_source(error))
    }

    /// A document named by a descriptor.
    pub(super) fn described<T: DeserializeOwned>(&self, descriptor: &ImageDescriptor) -> Result<T> {
        self.document(&blob_path(&descriptor.digest)?, Some(&descriptor.digest))
    }

    /// A part as a stream whose digest is known when all of it was read.
    pub(super) fn stream(&self, descriptor: &ImageDescriptor) -> Result<Hashing<File>> {
        let file = self.file(&blob_path(&descriptor.digest)?)?;
        if let (Some(size), Ok(metadata)) = (descriptor.size, file.metadata())
            && metadata.len() != size
        {
            let message = format!("blob `{}` has {} bytes, not {size}", descriptor.digest, metadata.len());
            return Err(damaged(message));
        }
        Ok(Hashing::new(file))
    }
}

/// Where a part lies in a layout.
pub fn blob_path(digest: &str) -> Result<String> {
    match digest.split_once(':') {
        Some(("sha256", hex)) if hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(format!("blobs/sha256/{hex}"))
        }
        Some((algorithm, _)) if algorithm != "sha256" => {
            Err(damaged(format!("digest `{digest}` is of a kind other than sha256")))
        }
        _ => Err(damaged(format!("`{digest}` is no digest"))),
    }
}

/// Whether a part is the one its digest names.
pub fn compare(digest: &str, computed: &str) -> Result<()> {
    if digest.strip_prefix("sha256:").is_some_and(|expected| expected.eq_ignore_ascii_case(computed)) {
        return Ok(());
    }
    Err(damaged(format!("part `{digest}` of the image is damaged: its digest is sha256:{computed}"))
        .with_hint("copy or download the image again"))
}

pub(super) fn damaged(message: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, message)
}

/// Counts what passes through it.
#[derive(Debug)]
pub(super) struct Hashing<R> {
    stream: R,
    hasher: Sha256,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, hasher: Sha256::new() }
    }

    /// Reads what is left and says what all of it hashes to.
    pub(super) fn finish(mut self) -> std::io::Result<String> {
        std::io::copy(&mut self, &mut std::io::sink())?;
        Ok(hex(&self.hasher.finalize()))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let got = self.stream.read(buffer)?;
        self.hasher.update(&buffer[..got]);
        Ok(got)
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
