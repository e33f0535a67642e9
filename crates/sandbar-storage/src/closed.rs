//! Directories and files of the host's own, closed to every other user.
//!
//! Files of sessions keep the owners and modes they have inside: a program of root's with the set-user-id bit is one on the
//! machine's disk as well. So the way to them is closed, whatever modes are found there.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
};

use sandbar_core::{Error, Result};

/// Makes a directory only its owner may enter. One that exists is closed to others.
pub(crate) fn make_closed_directory(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::io(format!("make directory `{}`", path.display()), error))?;
    close_to_others(path)
}

/// Takes all rights from group and others.
pub(crate) fn close_to_others(path: &Path) -> Result<()> {
    let complain = |error| {
        Error::io(format!("close `{}` to other users", path.display()), error)
            .with_hint("use a directory of the user the host runs as, on a file system that keeps modes")
    };
    let mode = fs::metadata(path).map_err(complain)?.permissions().mode() & 0o7777;
    let closed = mode & 0o700;
    if mode == closed {
        return Ok(());
    }
    tracing::info!(path = %path.display(), mode = format_args!("{mode:04o}"), "closed to other users");
    fs::set_permissions(path, fs::Permissions::from_mode(closed)).map_err(complain)
}
