//! [`DataDirectory`]: created when missing, closed to other users, locked by one host at a time.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, Result};
use sandbar_storage::require_safe_place;

/// A data directory that this host has locked.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    // The kernel releases the lock when the file is closed or the process dies.
    _lock: File,
}

fn unusable(path: &Path, error: io::Error) -> Error {
    Error::io(format!("use data directory `{}`", path.display()), error)
        .with_field("data_dir")
        .with_hint(
            "choose a directory you can write to, on a disk with free space, with `--data-dir`",
        )
}

/// Creates a data directory if it is missing, and closes it to other users. Must be called before
/// anything is written to it.
pub fn prepare_data_directory(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| unusable(path, error))?;
    close_to_others(path, |error| unusable(path, error))?;
    require_safe_place(path).map_err(|error| error.with_field("data_dir"))
}

/// Removes the permissions of group and others from a data directory that was created with them, by
/// hand or by a service manager. Files of sessions lie below it with the owners and modes they have
/// inside: another local user with access could read them, and run setuid programs that a session
/// created.
fn close_to_others(path: &Path, unusable: impl Fn(io::Error) -> Error) -> Result<()> {
    let directory = File::open(path).map_err(&unusable)?;
    let metadata = directory.metadata().map_err(&unusable)?;
    let refuse = |problem: String, hint: &str| {
        Err(Error::new(
            ErrorCode::PermissionDenied,
            format!("data directory `{}` {problem}", path.display()),
        )
        .with_field("data_dir")
        .with_hint(hint))
    };
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != own {
        return refuse(
            format!("belongs to user {owner}, and the host runs as user {own}"),
            "change its owner with `chown`, or choose another with `--data-dir`",
        );
    }
    let mode = metadata.permissions().mode() & 0o7777;
    let closed = mode & 0o700;
    if mode == closed {
        return Ok(());
    }
    let is_shared = mode & 0o1000 != 0;
    let is_empty = fs::read_dir(path).map_err(&unusable)?.next().is_none();
    let is_ours = ["host.lock", "state.db", "token", "storage"]
        .iter()
        .any(|name| path.join(name).exists());
    if is_shared || !(is_empty || is_ours) {
        return refuse(
            format!("is open to other users (mode {mode:04o}) and is not the host's alone"),
            "choose a dedicated directory with `--data-dir`, or close this one with `chmod 700`",
        );
    }
    if mode & 0o022 != 0 {
        for entry in fs::read_dir(path).map_err(&unusable)? {
            let entry = entry.map_err(&unusable)?;
            let theirs = entry.metadata().map_err(&unusable)?.uid();
            if theirs != own {
                return refuse(
                    format!(
                        "was writable by other users (mode {mode:04o}), and `{}` in it belongs to user {theirs}",
                        entry.path().display()
                    ),
                    "remove that, or choose another directory with `--data-dir`",
                );
            }
        }
    }
    directory
        .set_permissions(fs::Permissions::from_mode(closed))
        .map_err(&unusable)?;
    tracing::warn!(
        path = %path.display(),
        mode = format_args!("{mode:04o}"),
        "closed the data directory, which was open to other users"
    );
    Ok(())
}

impl DataDirectory {
    /// Creates and locks the directory.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let unusable = |error: io::Error| unusable(path, error);
        prepare_data_directory(path)?;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut lock = options.open(path.join("host.lock")).map_err(unusable)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                // The pid is informative only, so a failed read does not matter.
                let _ = lock.read_to_string(&mut owner);
                return Err(Error::new(
                    ErrorCode::InvalidState,
                    format!(
                        "data directory `{}` is in use by another host (pid {})",
                        path.display(),
                        owner.trim()
                    ),
                )
                .with_field("data_dir")
                .with_hint("stop that one, or choose another directory with `--data-dir`"));
            }
            Err(errno) => return Err(unusable(errno.into())),
        }
        let note = |mut file: &File| -> io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        note(&lock).map_err(unusable)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Removes permissions of other users that were added since the directory was opened.
    pub(crate) fn close_to_others(&self) -> Result<()> {
        close_to_others(&self.path, |error| unusable(&self.path, error))
    }

    pub(crate) fn state_database(&self) -> PathBuf {
        self.path.join("state.db")
    }

    /// Returns a subdirectory for files of an API surface, created if missing.
    pub(crate) fn part(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path);
        made.map_err(|error| Error::io(format!("create directory `{}`", path.display()), error))?;
        Ok(path)
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.path.join("images")
    }

    pub(crate) fn traffic_key(&self) -> PathBuf {
        self.path.join("traffic.key")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use sandbar_testing::tree::{scratch, set_mode};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn data_directory_open_to_others_is_closed_to_them() {
        let scratch = scratch();
        for (name, before) in [
            ("a", 0o755),
            ("b", 0o711),
            ("c", 0o750),
            ("d", 0o777),
            ("e", 0o700),
        ] {
            let path = scratch.path().join(name);
            fs::create_dir(&path).unwrap();
            set_mode(&path, before);
            drop(DataDirectory::open(&path).unwrap());
            assert_eq!(mode(&path), 0o700, "{before:o}");
            // A directory that a host has used is accepted, whatever else is in it.
            fs::write(path.join("notes"), "").unwrap();
            set_mode(&path, before);
            drop(DataDirectory::open(&path).unwrap());
            assert_eq!(mode(&path), 0o700, "{before:o}");
        }
    }

    #[test]
    fn data_directory_of_another_user_is_refused() {
        let scratch = scratch();
        let path = scratch.path().join("theirs");
        fs::create_dir(&path).unwrap();
        set_mode(&path, 0o700);
        chown(&path, Some(65534), Some(65534)).unwrap();
        let error = DataDirectory::open(&path).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert!(error.message().contains("user 65534"), "{}", error.chain());
    }

    #[test]
    fn open_directory_with_files_of_others_is_refused() {
        let scratch = scratch();
        let path = scratch.path().join("data");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("state.db"), "").unwrap();
        chown(path.join("state.db"), Some(65534), None).unwrap();
        set_mode(&path, 0o777);
        let error = DataDirectory::open(&path).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert!(error.message().contains("state.db"), "{}", error.chain());
        assert_eq!(mode(&path), 0o777);
    }

    #[test]
    fn data_directory_below_a_directory_of_all_is_refused() {
        let scratch = scratch();
        let path = scratch.path().join("parent/data");
        fs::create_dir_all(&path).unwrap();
        set_mode(path.parent().unwrap(), 0o777);
        let error = DataDirectory::open(&path).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied);
        assert_eq!(error.field(), Some("data_dir"));
    }

    #[test]
    fn open_directory_with_other_content_is_refused_untouched() {
        let scratch = scratch();
        let (full, shared) = (scratch.path().join("full"), scratch.path().join("shared"));
        fs::create_dir_all(full.join("home")).unwrap();
        set_mode(&full, 0o755);
        fs::create_dir(&shared).unwrap();
        set_mode(&shared, 0o1777);
        for (path, before) in [(full, 0o755), (shared, 0o1777)] {
            assert_eq!(
                DataDirectory::open(&path).unwrap_err().code(),
                ErrorCode::PermissionDenied
            );
            assert_eq!(mode(&path), before);
        }
    }

    #[test]
    fn lock_that_is_a_link_is_not_followed() {
        let scratch = scratch();
        let (path, target) = (scratch.path().join("data"), scratch.path().join("target"));
        fs::create_dir(&path).unwrap();
        set_mode(&path, 0o700);
        fs::write(&target, "kept").unwrap();
        symlink(&target, path.join("host.lock")).unwrap();
        DataDirectory::open(&path).unwrap_err();
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    }
}
