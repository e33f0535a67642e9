//! A file being written: a temporary beside its place, moved there in one step.

use std::{
    fs::File,
    io::Write as _,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, openat, renameat, unlinkat},
    io::Errno,
};
use sandbar_core::{Error, Result, SessionId, WriteOptions};

use super::tree::{SessionTree, failure};

/// Permission bits of a new file.
const DEFAULT_MODE: u32 = 0o644;

/// A file being written. Nothing is seen of it until it is committed; dropped, it changes nothing.
#[derive(Debug)]
pub struct Draft {
    directory: OwnedFd,
    file: File,
    temporary: PathBuf,
    name: PathBuf,
    mode: Mode,
    existing: Option<Stat>,
    committed: bool,
}

impl SessionTree {
    /// Starts writing the file `path`. One that is replaced keeps its owner, and its mode unless `options` say otherwise;
    /// a new one belongs to the user of the sandbox.
    pub fn draft(&self, path: &Path, options: WriteOptions) -> Result<Draft> {
        let _acting = self.act()?;
        let place = self.place(path, options.create_dirs)?;
        let complain = |errno: Errno| failure(path, errno);
        let temporary = PathBuf::from(format!(".sandbar-{}", SessionId::random()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&place.directory, &temporary, flags, Mode::from_raw_mode(0o600)).map_err(complain)?;
        let mode = options.mode.or(place.existing.map(|existing| existing.st_mode & 0o7777)).unwrap_or(DEFAULT_MODE);
        let draft = Draft {
            directory: place.directory,
            file: file.into(),
            temporary,
            name: place.name,
            mode: Mode::from_raw_mode(mode),
            existing: place.existing,
            committed: false,
        };
        if let Some(existing) = &draft.existing {
            let user = Uid::from_raw(self.kept(existing.st_uid));
            let group = Gid::from_raw(self.kept(existing.st_gid));
            fchown(&draft.file, Some(user), Some(group)).map_err(complain)?;
        }
        Ok(draft)
    }
}

impl Draft {
    /// The file this one replaces, as it was when the draft was started.
    pub fn existing(&self) -> Option<&Stat> {
        self.existing.as_ref()
    }

    /// Adds bytes. After an error part of them may be there, and the draft is good for nothing.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io(format!("write `{}`", self.name.display()), error))
    }

    /// Puts the file into its place in one step.
    pub fn commit(mut self) -> Result<()> {
        let complain = |errno| failure(&self.name, errno);
        // Last, because some file systems take set-uid bits away when a file is written.
        fchmod(&self.file, self.mode).map_err(complain)?;
        renameat(&self.directory, &self.temporary, &self.directory, &self.name).map_err(complain)?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.committed
            && let Err(errno) = unlinkat(&self.directory, &self.temporary, AtFlags::empty())
            && errno != Errno::NOENT
        {
            tracing::warn!(%errno, "could not remove a temporary file");
        }
    }
}
