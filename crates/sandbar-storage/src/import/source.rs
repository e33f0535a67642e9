//! What a base is made from, found out by looking.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use sandbar_core::{Error, ErrorCode, Result};

use crate::archive::{ArchiveReader, decompress};

const KINDS: &str =
    "give `host`, a directory, a tar archive (plain, gzip or zstd), an OCI layout, or a docker-archive (`docker save`)";

const ROOM: &str =
    "remove bases with `sandbar base rm` or sandboxes with `sandbar rm`, or keep them on a disk with more room";
const RIGHTS: &str = "let the user the host runs as read all of the source, or run the host as root";

/// What a base is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportSource {
    /// This machine's own programs and libraries.
    Host,
    Directory(PathBuf),
    /// A root file system in a tar archive.
    Tar(PathBuf),
    /// A directory with `oci-layout` and `index.json`.
    OciLayout(PathBuf),
    /// The same in a tar archive.
    OciArchive(PathBuf),
    /// What `docker save` and `podman save` write.
    DockerArchive(PathBuf),
}

impl ImportSource {
    /// Looks at `source` and says what it is. Names and extensions do not matter, except that `host` is this machine;
    /// a directory of that name is `./host`.
    pub fn parse(source: &str) -> Result<Self> {
        if source == "host" {
            return Ok(Self::Host);
        }
        if source.is_empty() {
            return Err(Error::invalid("source", "source is empty").with_hint(KINDS));
        }
        let path = Path::new(source);
        let metadata = std::fs::metadata(path).map_err(|error| unreachable_source(source, error))?;
        if metadata.is_dir() {
            let is_layout = path.join("oci-layout").is_file() && path.join("index.json").is_file();
            return Ok(if is_layout { Self::OciLayout(path.into()) } else { Self::Directory(path.into()) });
        }
        if !metadata.is_file() {
            let message = format!("source `{source}` is neither a file nor a directory");
            return Err(Error::invalid("source", message).with_hint(KINDS));
        }
        if metadata.len() == 0 {
            return Err(Error::invalid("source", format!("source `{source}` is an empty file")).with_hint(KINDS));
        }
        let file = File::open(path).map_err(|error| unreachable_source(source, error))?;
        match contents(file).map_err(|error| helped(at_source(error, source)))? {
            Contents::Tree => Ok(Self::Tar(path.into())),
            Contents::OciLayout => Ok(Self::OciArchive(path.into())),
            Contents::DockerArchive => Ok(Self::DockerArchive(path.into())),
        }
    }
}

/// A fault in what the caller gave is reported for the field it came in.
pub(super) fn at_source(error: Error, source: &str) -> Error {
    if error.code() != ErrorCode::InvalidArgument {
        return error;
    }
    let hint = error.hint().map_or_else(|| KINDS.to_owned(), ToOwned::to_owned);
    Error::invalid("source", format!("source `{source}` cannot be imported")).with_hint(hint).with_source(error)
}

/// The same error, with what helps against a fault of the machine where nobody has said so yet.
pub(super) fn helped(error: Error) -> Error {
    match (error.hint(), error.code()) {
        (None, ErrorCode::StorageFull) => error.with_hint(ROOM),
        (None, ErrorCode::PermissionDenied) => error.with_hint(RIGHTS),
        _ => error,
    }
}

fn unreachable_source(source: &str, error: std::io::Error) -> Error {
    if error.kind() != std::io::ErrorKind::NotFound {
        return helped(Error::io(format!("open source `{source}`"), error).with_field("source"));
    }
    let looks_remote = source.contains("://") || (source.contains(':') && !source.contains('/'));
    let hint = if looks_remote {
        let reference = source.rsplit("://").next().unwrap_or(source);
        format!("fetch the image first: `skopeo copy docker://{reference} oci:image`, then import `image`")
    } else {
        KINDS.to_owned()
    };
    Error::invalid("source", format!("source `{source}` does not exist")).with_hint(hint)
}

pub(super) enum Contents {
    Tree,
    OciLayout,
    DockerArchive,
}

/// What an archive holds. Image archives have only a few kinds of names at the top; the first other name ends the
/// search, so that a large root file system is not read twice.
pub(super) fn contents(file: impl Read) -> Result<Contents> {
    let mut archive = ArchiveReader::new(decompress(file)?);
    let (mut layout, mut index, mut manifest, mut any) = (false, false, false, false);
    while let Some(entry) = archive.next_entry()? {
        any = true;
        let path = entry.path.strip_prefix(b"./").unwrap_or(&entry.path);
        let top = path.split(|byte| *byte == b'/').next().unwrap_or_default();
        match top {
            b"oci-layout" => layout = true,
            b"index.json" => index = true,
            b"manifest.json" => manifest = true,
            b"" | b"." | b"blobs" | b"repositories" => {}
            top if is_docker_name(top) => {}
            _ => return Ok(Contents::Tree),
        }
        if layout && index {
            return Ok(Contents::OciLayout);
        }
    }
    if manifest {
        return Ok(Contents::DockerArchive);
    }
    if !any {
        return Err(Error::new(ErrorCode::InvalidArgument, "archive is empty"));
    }
    Ok(Contents::Tree)
}

/// A layer or configuration in a docker-archive: 64 hexadecimal digits, perhaps with an extension.
fn is_docker_name(name: &[u8]) -> bool {
    let stem = name.strip_suffix(b".json").or_else(|| name.strip_suffix(b".tar")).unwrap_or(name);
    stem.len() == 64 && stem.iter().all(u8::is_ascii_hexdigit)
}
