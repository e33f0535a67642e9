//! A file being written: a temporary beside its place, moved there in one step.

use std::{
    ffi::{CString, OsStr},
    fs::File,
    io::Write as _,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, openat, renameat, unlinkat},
    io::Errno,
};
use sandbar_core::{Error, ErrorCode, MakeDirOptions, Result, SessionId, WriteOptions};

use super::{
    details::USER_ATTRIBUTES,
    tree::{SessionTree, failure},
};
use crate::xattrs;

/// Permission bits of a new file.
const DEFAULT_MODE: u32 = 0o644;

/// How names of drafts begin: of a file that is not there yet, and of one that is.
const NEW: &str = ".sandbar-new-";
const REPLACING: &str = ".sandbar-old-";

/// What a draft will be when it is in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftKind {
    NewFile,
    Replacement,
}

impl DraftKind {
    /// What the file `name` is a draft of, should it be one: whoever watches a directory sees them come and go.
    pub fn of(name: &OsStr) -> Option<Self> {
        let name = name.as_encoded_bytes();
        let is = |prefix: &str| name.starts_with(prefix.as_bytes());
        if is(NEW) { Some(Self::NewFile) } else { is(REPLACING).then_some(Self::Replacement) }
    }
}

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
        let _acting = self.act_as(options.owner)?;
        let directories = MakeDirOptions { create_dirs: options.create_dirs, owner: options.owner };
        let place = self.place(path, directories)?;
        let complain = |errno: Errno| failure(path, errno);
        let prefix = if place.existing.is_some() { REPLACING } else { NEW };
        let temporary = PathBuf::from(format!("{prefix}{}", SessionId::random()));
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
        let existing = draft.existing.as_ref().map(|stat| (self.kept(stat.st_uid), self.kept(stat.st_gid)));
        let owner = options.owner.map(|(user, group)| (self.shown(user), self.shown(group)));
        if let Some((user, group)) = owner.or(existing) {
            fchown(&draft.file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group))).map_err(complain)?;
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

    /// Gives the file an extended attribute; its name begins with `user.`.
    pub fn set_attribute(&self, name: &str, value: &[u8]) -> Result<()> {
        let complain = |errno: Errno| match errno {
            Errno::OPNOTSUPP => Error::new(ErrorCode::Unavailable, "this file system keeps no attributes of files")
                .with_field("attributes")
                .with_hint("keep them in a file beside it"),
            Errno::TOOBIG | Errno::RANGE | Errno::INVAL => {
                Error::invalid("attributes", format!("`{name}` or its value is too long for an attribute of a file"))
                    .with_hint("use at most 255 bytes for the name and a few KiB for all values")
            }
            errno => Error::io(format!("set attribute `{name}` of `{}`", self.name.display()), errno.into()),
        };
        if !name.starts_with(USER_ATTRIBUTES) {
            return Err(Error::invalid("attributes", format!("`{name}` is not an attribute a user may set"))
                .with_hint("begin its name with `user.`"));
        }
        let name = CString::new(name).map_err(|_| complain(Errno::INVAL))?;
        xattrs::Place::Open(&self.file).set(&name, value).map_err(complain)
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
