//! Detection of the type of an import source.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use sandbar_core::{Error, ErrorCode, Result};
use sandbar_tree::archive::{ArchiveReader, Limits, decompress};

const SOURCES_HINT: &str = "give `host`, a directory, a tar archive (plain, gzip or zstd), an OCI layout, or a docker-archive (`docker save`)";

const FULL_HINT: &str = "remove bases with `sandbar base rm` or sandboxes with `sandbar rm`, or use a data directory on a larger disk";
const PERMISSION_HINT: &str =
    "make the source readable for the user of the host, or run the host as root";

/// Source of a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportSource {
    /// Programs and libraries of this machine.
    Host,
    Directory(PathBuf),
    /// Root file system in a tar archive.
    Tar(PathBuf),
    /// Directory with `oci-layout` and `index.json`.
    OciLayout(PathBuf),
    /// OCI layout in a tar archive.
    OciArchive(PathBuf),
    /// Output of `docker save` or `podman save`.
    DockerArchive(PathBuf),
}

impl ImportSource {
    /// Detects the type of `source` by its content. Names and extensions do not matter, except that
    /// `host` is this machine; a directory of that name is `./host`.
    pub fn parse(source: &str) -> Result<Self> {
        if source == "host" {
            return Ok(Self::Host);
        }
        if source.is_empty() {
            return Err(Error::invalid("source", "source is empty").with_hint(SOURCES_HINT));
        }
        let path = Path::new(source);
        let metadata =
            std::fs::metadata(path).map_err(|error| unreachable_source(source, error))?;
        if metadata.is_dir() {
            let is_layout = path.join("oci-layout").is_file() && path.join("index.json").is_file();
            return Ok(if is_layout {
                Self::OciLayout(path.into())
            } else {
                Self::Directory(path.into())
            });
        }
        if !metadata.is_file() {
            let message = format!("source `{source}` is neither a file nor a directory");
            return Err(Error::invalid("source", message).with_hint(SOURCES_HINT));
        }
        if metadata.len() == 0 {
            return Err(
                Error::invalid("source", format!("source `{source}` is an empty file"))
                    .with_hint(SOURCES_HINT),
            );
        }
        let file = File::open(path).map_err(|error| unreachable_source(source, error))?;
        match contents(file).map_err(|error| helped(at_source(error, source)))? {
            Contents::Tree => Ok(Self::Tar(path.into())),
            Contents::OciLayout => Ok(Self::OciArchive(path.into())),
            Contents::DockerArchive => Ok(Self::DockerArchive(path.into())),
        }
    }
}

/// Reports invalid content for the field `source`.
pub(super) fn at_source(error: Error, source: &str) -> Error {
    if error.code() != ErrorCode::InvalidArgument {
        return error;
    }
    let hint = error
        .hint()
        .map_or_else(|| SOURCES_HINT.to_owned(), ToOwned::to_owned);
    Error::invalid("source", format!("source `{source}` cannot be imported"))
        .with_hint(hint)
        .with_source(error)
}

/// Adds a hint to errors of the machine that have none.
pub(super) fn helped(error: Error) -> Error {
    match (error.hint(), error.code()) {
        (None, ErrorCode::StorageFull) => error.with_hint(FULL_HINT),
        (None, ErrorCode::PermissionDenied) => error.with_hint(PERMISSION_HINT),
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
        format!(
            "fetch the image first: `skopeo copy docker://{reference} oci:image`, then import `image`"
        )
    } else {
        SOURCES_HINT.to_owned()
    };
    Error::invalid("source", format!("source `{source}` does not exist")).with_hint(hint)
}

/// Files in the archive of an image that are looked at; a root file system may have more.
const MAX_IMAGE_FILES: usize = 100_000;

pub(super) enum Contents {
    Tree,
    OciLayout,
    DockerArchive,
}

/// Detects the content of an archive. Image archives have only a few top-level names; the first
/// other name ends the search, so that a large root file system is not read twice.
pub(super) fn contents(file: impl Read) -> Result<Contents> {
    let mut archive = ArchiveReader::new(decompress(file)?).with_limits(Limits::BASE);
    let (mut layout, mut index, mut manifest, mut any) = (false, false, false, false);
    for _ in 0..MAX_IMAGE_FILES {
        let Some(entry) = archive.next_entry()? else {
            break;
        };
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

/// Returns whether a name is a layer or configuration in a docker-archive: 64 hexadecimal digits,
/// optionally with an extension.
fn is_docker_name(name: &[u8]) -> bool {
    let stem = name
        .strip_suffix(b".json")
        .or_else(|| name.strip_suffix(b".tar"))
        .unwrap_or(name);
    stem.len() == 64 && stem.iter().all(u8::is_ascii_hexdigit)
}
