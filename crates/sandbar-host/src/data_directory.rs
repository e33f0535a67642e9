//! The data directory: made when missing, owned by one host at a time.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, Result};

/// A data directory nobody else uses while this exists.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    // The lock is held as long as the file is open; the kernel lets go of it when the process dies.
    _lock: File,
}

impl DataDirectory {
    /// Makes and locks the directory. One that cannot be written is an error that names the way out.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let unusable = |error: io::Error| {
            Error::io(format!("use data directory `{}`", path.display()), error)
                .with_field("data_dir")
                .with_hint("choose a directory you can write to, on a disk with free space, with `--data-dir`")
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut lock = options.open(path.join("host.lock")).map_err(unusable)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                // Who holds it is a courtesy; that it is held is what matters.
                let _ = lock.read_to_string(&mut owner);
                return Err(Error::new(
                    ErrorCode::InvalidState,
                    format!("data directory `{}` is in use by another host (pid {})", path.display(), owner.trim()),
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
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(crate) fn state_database(&self) -> PathBuf {
        self.path.join("state.db")
    }

    /// A directory for somebody who keeps things of its own beside the host's, made when missing.
    pub(crate) fn part(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| Error::io(format!("make directory `{}`", path.display()), error))?;
        Ok(path)
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.path.join("images")
    }

    pub(crate) fn traffic_key(&self) -> PathBuf {
        self.path.join("traffic.key")
    }
}
