//! An entry of the tree by its open parent directory and its name.

use std::{
    ffi::{CString, OsStr},
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::Path,
};

use sandbar_core::{Error, Result, shown_path};

use super::tree::SessionTree;

/// Name in an open directory. The entry itself is not resolved, so that a symbolic link at the end
/// of a path is renamed or removed itself.
pub(super) struct Named {
    pub(super) directory: OwnedFd,
    pub(super) name: CString,
}

impl SessionTree {
    pub(super) fn named(&self, path: &Path) -> Result<Named> {
        let (above, name) = split(path)?;
        Ok(Named {
            directory: self.directory(above)?,
            name,
        })
    }
}

pub(super) fn c_string(name: &OsStr) -> Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| Error::invalid("path", "path contains NUL"))
}

/// Splits a path into its parent directory and its name.
pub(super) fn split(path: &Path) -> Result<(&Path, CString)> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::invalid(
            "path",
            format!("`{}` does not end in a name", shown_path(path)),
        )
        .with_hint("use a path below the root that does not end in `..`"));
    };
    Ok((above, c_string(name)?))
}
