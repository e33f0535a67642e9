//! File contents: reading whole files and detecting text, images and binary data.

use std::{fs::File, io::Read as _, path::Path};

use sandbar_core::{ByteCount, Error, Result, shown_path};

use crate::context::HostSide;

/// Size limit of files that tools read or edit.
const MAX_FILE_SIZE: ByteCount = ByteCount::mib(10);

/// Leading bytes of a file that are examined to detect whether it is text.
const PROBE: usize = 8 << 10;

/// File read completely.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
}

/// Kind of content, detected from the first bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentKind {
    Text,
    /// Image with its media type.
    Image(&'static str),
    Binary,
}

impl Content {
    /// Reads a regular file, up to the limit.
    pub(super) fn read(side: &HostSide, path: &Path) -> Result<Self> {
        let (file, stat) = side.tree.open_file(path)?;
        if stat.size > MAX_FILE_SIZE {
            return Err(too_large(path, stat.size));
        }
        let bytes = read_bounded(&file)
            .map_err(|error| Error::io(format!("read `{}`", shown_path(path)), error))?;
        match bytes {
            Some(bytes) => Ok(Self { bytes }),
            // The file grew during the read.
            None => Err(too_large(path, ByteCount(MAX_FILE_SIZE.get() + 1))),
        }
    }

    pub(super) fn kind(&self) -> ContentKind {
        let bytes = self.bytes.as_slice();
        match bytes {
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => ContentKind::Image("image/png"),
            [0xff, 0xd8, 0xff, ..] => ContentKind::Image("image/jpeg"),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => ContentKind::Image("image/gif"),
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => ContentKind::Image("image/webp"),
            _ if memchr::memchr(0, &bytes[..bytes.len().min(PROBE)]).is_some() => {
                ContentKind::Binary
            }
            _ => ContentKind::Text,
        }
    }
}

/// Reads the whole file; `None` when it exceeds the limit.
fn read_bounded(file: &File) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_SIZE.get() + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= MAX_FILE_SIZE.get()).then_some(bytes))
}

fn too_large(path: &Path, size: ByteCount) -> Error {
    Error::invalid(
        "path",
        format!(
            "`{}` has {size}, more than the {MAX_FILE_SIZE} that are read at once",
            shown_path(path)
        ),
    )
    .with_hint("search it with `grep`, or take a part of it with `bash`: sed -n '1,100p' FILE")
}
