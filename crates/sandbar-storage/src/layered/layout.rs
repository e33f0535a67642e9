//! Paths below the root of a layered store.
//!
//! ```text
//! layout                     format version of this directory
//! bases/<name>/base.json     record          bases/<name>/rootfs/   files
//! volumes/<id>/volume.json   record          volumes/<id>/live/     one <n>/{upper,work} a mount
//!                                            volumes/<id>/snapshots/<name>/
//! mnt/<id>                   mount point of a live volume
//! .empty/                    empty, for overlays of lent directories
//! staging/  trash/           objects under construction, discarded objects
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandbar_core::{BaseName, ByteCount, Error, ErrorCode, Result, SessionId, SnapshotName};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::{
    private_directory::{make_private_directory, remove_other_access, require_safe_place},
    world_readable::empty_directory,
};

/// Version of the directory layout; bumped when an older program could misread it.
const VERSION: &str = "1";

/// Directories below the root that hold trees of sessions or bases.
const PRIVATE: [&str; 5] = ["bases", "volumes", "mnt", "staging", "trash"];

/// Paths below the root of a store.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    empty: PathBuf,
}

impl Layout {
    /// Opens `root`, creating missing directories. Refuses a directory written by another version.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        if !root.exists() {
            make_private_directory(root)?;
        }
        require_safe_place(root)?;
        let marker = root.join("layout");
        match fs::read_to_string(&marker) {
            Ok(version) if version.trim() == VERSION => {}
            Ok(version) => {
                return Err(Error::new(
                    ErrorCode::InvalidState,
                    format!(
                        "storage at `{}` has layout version `{}`, this program supports `{VERSION}`",
                        root.display(),
                        version.trim()
                    ),
                )
                .with_hint(
                    "start the version of sandbar that wrote it, or use another data directory",
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_file(&marker, VERSION.as_bytes())?;
            }
            Err(error) => return Err(Error::io(format!("read `{}`", marker.display()), error)),
        }
        // Not `root` itself, which may be the top of a file system with other content.
        for name in PRIVATE {
            make_private_directory(&root.join(name))?;
        }
        // A second wall below the first: a parent that is opened to others opens nothing by itself.
        for parent in ["bases", "volumes"] {
            let parent = root.join(parent);
            for name in names(&parent)? {
                remove_other_access(&parent.join(name))?;
            }
        }
        Ok(Self {
            root: root.to_owned(),
            empty: empty_directory(root)?,
        })
    }

    /// Removes the permissions that other users were given since the store was opened.
    pub(crate) fn close_to_others(&self) -> Result<()> {
        PRIVATE
            .iter()
            .try_for_each(|name| remove_other_access(&self.root.join(name)))
    }

    /// Returns an empty directory.
    pub(crate) fn empty(&self) -> &Path {
        &self.empty
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn bases(&self) -> PathBuf {
        self.root.join("bases")
    }

    pub(crate) fn base(&self, name: &BaseName) -> PathBuf {
        self.bases().join(name)
    }

    pub(crate) fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    pub(crate) fn volume(&self, id: &SessionId) -> PathBuf {
        self.volumes().join(id)
    }

    pub(crate) fn live(&self, id: &SessionId) -> PathBuf {
        self.volume(id).join("live")
    }

    pub(crate) fn snapshots(&self, id: &SessionId) -> PathBuf {
        self.volume(id).join("snapshots")
    }

    pub(crate) fn snapshot(&self, id: &SessionId, name: &SnapshotName) -> PathBuf {
        self.snapshots(id).join(name)
    }

    pub(crate) fn mount_point(&self, id: &SessionId) -> PathBuf {
        self.root.join("mnt").join(id)
    }

    pub(crate) fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    pub(crate) fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// Returns a new unique path in `staging`.
    pub(crate) fn stage(&self) -> PathBuf {
        self.staging().join(Uuid::now_v7().simple().to_string())
    }

    /// Moves `path` to the trash by one rename. A missing `path` is success.
    pub(crate) fn discard(&self, path: &Path) -> Result<()> {
        match fs::rename(path, self.trash().join(Uuid::now_v7().simple().to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(
                format!("move `{}` to the trash", path.display()),
                error,
            )),
            _ => Ok(()),
        }
    }
}

/// Record of a volume. Stored outside its tree, so that a rollback does not revert it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumeRecord {
    pub(crate) version: u32,
    pub(crate) base: BaseName,
    pub(crate) quota: Option<ByteCount>,
    /// Whether the base is an overlay lower, or was copied into the tree.
    pub(crate) layered: bool,
}

impl VolumeRecord {
    pub(crate) const VERSION: u32 = 1;
}

/// Renames `from` to `to` atomically, unless `to` exists.
pub(crate) fn publish(from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

pub(crate) fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path)
        .map_err(|error| Error::io(format!("make directory `{}`", path.display()), error))
}

pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content)
        .map_err(|error| Error::io(format!("write `{}`", path.display()), error))
}

pub(crate) fn write_record<T: Serialize>(path: &Path, record: &T) -> Result<()> {
    let json = serde_json::to_vec_pretty(record).map_err(|error| {
        Error::internal(format!("encode `{}`", path.display())).with_source(error)
    })?;
    write_file(path, &json)
}

/// Reads a record; `None` when it does not exist.
pub(crate) fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let json = match fs::read(path) {
        Ok(json) => json,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(Error::io(format!("read `{}`", path.display()), error)),
    };
    serde_json::from_slice(&json)
        .map(Some)
        .map_err(|error| Error::internal(format!("decode `{}`", path.display())).with_source(error))
}

/// Refuses a record written by another version of this program.
pub(crate) fn require_version(found: u32, known: u32, what: impl FnOnce() -> String) -> Result<()> {
    if found == known {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::InvalidState,
        format!(
            "{} has version {found}, this program supports {known}",
            what()
        ),
    )
    .with_hint("start the version of sandbar that wrote it"))
}

/// Lists the names in a directory, sorted.
pub(crate) fn names(directory: &Path) -> Result<Vec<std::ffi::OsString>> {
    let complain = |error| Error::io(format!("list `{}`", directory.display()), error);
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(complain)? {
        names.push(entry.map_err(complain)?.file_name());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_version_is_refused_and_named() {
        require_version(1, 1, || unreachable!("it fits")).unwrap();
        let error = require_version(2, 1, || "record of volume `v`".into()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        assert_eq!(
            error.message(),
            "record of volume `v` has version 2, this program supports 1"
        );
    }
}
