//! What is in a file.

use std::{fs::File, io::Read as _, path::Path};

use sandbar_core::{ByteCount, Error, Result};

use crate::context::HostSide;

/// The largest file tools read or edit whole.
const LARGEST: ByteCount = ByteCount::mib(10);

/// How much of a file is looked at to tell whether it is text.
const PROBE: usize = 8 << 10;

/// A file that was read whole.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
}

/// What a file holds, told by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentKind {
    Text,
    /// With its media type.
    Image(&'static str),
    Binary,
}

impl Content {
    /// Reads a regular file, up to the limit.
    pub(super) fn read(side: &HostSide, path: &Path) -> Result<Self> {
        let (file, stat) = side.tree.open_file(path)?;
        if stat.size > LARGEST {
            return Err(too_large(path, stat.size));
        }
        let bytes = read_bounded(&file).map_err(|error| Error::io(format!("read `{}`", path.display()), error))?;
        match bytes {
            Some(bytes) => Ok(Self { bytes }),
            // It has grown while it was read.
            None => Err(too_large(path, ByteCount(LARGEST.get() + 1))),
        }
    }

    pub(super) fn kind(&self) -> ContentKind {
        let bytes = self.bytes.as_slice();
        match bytes {
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => ContentKind::Image("image/png"),
            [0xff, 0xd8, 0xff, ..] => ContentKind::Image("image/jpeg"),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => ContentKind::Image("image/gif"),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => ContentKind::Image("image/webp"),
            _ if memchr::memchr(0, &bytes[..bytes.len().min(PROBE)]).is_some() => ContentKind::Binary,
            _ => ContentKind::Text,
        }
    }
}

/// The whole file; `None` when it is above the limit.
fn read_bounded(file: &File) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(LARGEST.get() + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= LARGEST.get()).then_some(bytes))
}

fn too_large(path: &Path, size: ByteCount) -> Error {
    Error::invalid("path", format!("`{}` has {size}, more than the {LARGEST} that are read at once", path.display()))
        .with_hint("search it with `grep`, or take a part of it with `bash`: sed -n '1,100p' FILE")
}
