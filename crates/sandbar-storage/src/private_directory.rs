//! Directories and files that only the host's user may access.
//!
//! Files of sessions keep their owners and modes on disk: a setuid-root program of a session is one
//! on the machine's disk as well. Other local users must not reach it, so the directories above are
//! private, whatever modes existed before.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::Path,
};

use sandbar_core::{Error, ErrorCode, Result};

const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITE: u32 = 0o020;

/// Creates a directory with mode 0700. An existing one loses its permissions for group and others.
pub(crate) fn make_private_directory(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::io(format!("make directory `{}`", path.display()), error))?;
    remove_other_access(path)
}

/// Removes all permissions for group and others. A symbolic link is not followed, and a directory
/// or file of another user is refused, because its owner keeps access whatever its mode is.
pub(crate) fn remove_other_access(path: &Path) -> Result<()> {
    let complain = |error| {
        Error::io(format!("remove permissions of other users from `{}`", path.display()), error).with_hint(
            "use a directory that belongs to the user of the host, on a file system with POSIX permissions",
        )
    };
    let file = open_own(path, complain)?;
    let mode = file.metadata().map_err(complain)?.permissions().mode() & 0o7777;
    let closed = mode & 0o700;
    if mode == closed {
        return Ok(());
    }
    tracing::info!(path = %path.display(), mode = format_args!("{mode:04o}"), "removed permissions of other users");
    file.set_permissions(fs::Permissions::from_mode(closed))
        .map_err(complain)
}

/// Opens a directory or regular file that belongs to the user of the host.
fn open_own(path: &Path, complain: impl Fn(io::Error) -> Error) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(&complain)?;
    let (owner, own) = (
        file.metadata().map_err(&complain)?.uid(),
        rustix::process::geteuid().as_raw(),
    );
    if owner == own {
        return Ok(file);
    }
    Err(Error::new(
        ErrorCode::PermissionDenied,
        format!(
            "`{}` belongs to user {owner}, and the host runs as user {own}",
            path.display()
        ),
    )
    .with_hint("change its owner with `chown`, or use another directory"))
}

/// Refuses a directory in which another user can replace what the host creates, or that such a
/// user can replace by another one: it or a parent is writable by everyone, without the sticky bit,
/// or it belongs to another user. A parent that is writable by a group or belongs to another user
/// is reported only.
pub fn require_safe_place(path: &Path) -> Result<()> {
    let complain = |error| Error::io(format!("check `{}`", path.display()), error);
    let own = rustix::process::geteuid().as_raw();
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        // An ordinary user may work below a directory that it can not enter by name.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(path = %path.display(), "could not check the parents of the host's directory");
            return Ok(());
        }
        Err(error) => return Err(complain(error)),
    };
    for directory in real.ancestors() {
        let metadata = fs::symlink_metadata(directory).map_err(complain)?;
        let (owner, mode) = (metadata.uid(), metadata.mode());
        let is_foreign = owner != own && owner != 0;
        let is_open = mode & STICKY == 0 && mode & OTHERS_WRITE != 0;
        if is_open || (is_foreign && directory == real) {
            let problem = if is_open {
                format!("is writable by everyone (mode {:04o})", mode & 0o7777)
            } else {
                format!("belongs to user {owner}")
            };
            return Err(Error::new(
                ErrorCode::PermissionDenied,
                format!("directory `{}` {problem}", directory.display()),
            )
            .with_hint(format!(
                "another user could replace files of sessions; close it with `chmod go-w {}`, or use another directory",
                directory.display()
            )));
        }
        if is_foreign || (mode & STICKY == 0 && mode & GROUP_WRITE != 0) {
            tracing::warn!(path = %directory.display(), owner, mode = format_args!("{:04o}", mode & 0o7777), "another user can replace the directory of the host");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use sandbar_testing::tree::{scratch, set_mode};

    use super::*;

    #[test]
    fn directory_of_another_user_is_refused() {
        let scratch = scratch();
        let path = scratch.path().join("theirs");
        make_private_directory(&path).unwrap();
        chown(&path, Some(65534), Some(65534)).unwrap();
        let error = make_private_directory(&path).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert!(error.message().contains("user 65534"), "{}", error.chain());
    }

    #[test]
    fn link_in_place_of_a_directory_is_not_followed() {
        let scratch = scratch();
        let (path, target) = (scratch.path().join("link"), scratch.path().join("target"));
        fs::create_dir(&target).unwrap();
        set_mode(&target, 0o755);
        symlink(&target, &path).unwrap();
        make_private_directory(&path).unwrap_err();
        assert_eq!(fs::metadata(&target).unwrap().mode() & 0o7777, 0o755);
    }

    #[test]
    fn place_others_can_replace_is_refused() {
        let scratch = scratch();
        let place = scratch.path().join("parent/place");
        fs::create_dir_all(&place).unwrap();
        let parent = place.parent().unwrap();
        for (mode, is_safe) in [
            (0o755, true),
            (0o700, true),
            (0o1777, true),
            (0o775, true),
            (0o777, false),
            (0o703, false),
        ] {
            set_mode(parent, mode);
            assert_eq!(require_safe_place(&place).is_ok(), is_safe, "{mode:o}");
        }
        set_mode(parent, 0o755);
        set_mode(&place, 0o777);
        require_safe_place(&place).unwrap_err();
        set_mode(&place, 0o755);
        chown(&place, Some(65534), None).unwrap();
        require_safe_place(&place).unwrap_err();
    }
}
