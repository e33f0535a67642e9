//! Directories and files that only the host's user may access.
//!
//! Files of sessions keep their owners and modes on disk: a setuid-root program of a session is one
//! on the machine's disk as well. Other local users must not reach it, so the directories above are
//! private, whatever modes existed before.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
};

use sandbar_core::{Error, Result};

/// Creates a directory with mode 0700. An existing one loses its permissions for group and others.
pub(crate) fn make_private_directory(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::io(format!("make directory `{}`", path.display()), error))?;
    remove_other_access(path)
}

/// Removes all permissions for group and others.
pub(crate) fn remove_other_access(path: &Path) -> Result<()> {
    let complain = |error| {
        Error::io(format!("remove permissions of other users from `{}`", path.display()), error).with_hint(
            "use a directory that belongs to the user of the host, on a file system with POSIX permissions",
        )
    };
    let mode = fs::metadata(path).map_err(complain)?.permissions().mode() & 0o7777;
    let closed = mode & 0o700;
    if mode == closed {
        return Ok(());
    }
    tracing::info!(path = %path.display(), mode = format_args!("{mode:04o}"), "removed permissions of other users");
    fs::set_permissions(path, fs::Permissions::from_mode(closed)).map_err(complain)
}
