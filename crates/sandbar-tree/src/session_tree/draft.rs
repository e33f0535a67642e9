//! Atomic file writes: a temporary file in the same directory, renamed over the target.

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
use sandbar_core::{Error, ErrorCode, MakeDirOptions, Result, SessionId, WriteOptions, shown_path};

use super::{
    details::USER_ATTRIBUTES,
    tree::{SessionTree, failure},
};
use crate::xattrs;

/// Permission bits of a new file.
const DEFAULT_MODE: u32 = 0o644;

/// Name prefixes of drafts: of a new file, and of one that replaces an existing file.
const NEW: &str = ".sandbar-new-";
const REPLACING: &str = ".sandbar-old-";

/// Kind of file a draft becomes on commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftKind {
    NewFile,
    Replacement,
}

impl DraftKind {
    /// Detects a draft by its file name, for directory watches, which see drafts created and
    /// renamed.
    pub fn of(name: &OsStr) -> Option<Self> {
        let name = name.as_encoded_bytes();
        let is = |prefix: &str| name.starts_with(prefix.as_bytes());
        if is(NEW) {
            Some(Self::NewFile)
        } else {
            is(REPLACING).then_some(Self::Replacement)
        }
    }
}

/// File being written, visible under its name only after [`commit`](Self::commit). Dropping it
/// changes nothing.
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
    /// Starts to write the file `path`. A replaced file keeps its owner and mode, a new one belongs
    /// to the sandbox's root, unless `options` say otherwise.
    pub fn draft(&self, path: &Path, options: WriteOptions) -> Result<Draft> {
        let _acting = self.act_as(options.owner)?;
        let directories = MakeDirOptions {
            create_dirs: options.create_dirs,
            owner: options.owner,
        };
        let place = self.write_target(path, directories)?;
        let complain = |errno: Errno| failure(path, errno);
        let prefix = if place.existing.is_some() {
            REPLACING
        } else {
            NEW
        };
        let temporary = PathBuf::from(format!("{prefix}{}", SessionId::random()));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(
            &place.directory,
            &temporary,
            flags,
            Mode::from_raw_mode(0o600),
        )
        .map_err(complain)?;
        let mode = options
            .mode
            .or(place.existing.map(|existing| existing.st_mode & 0o7777))
            .unwrap_or(DEFAULT_MODE);
        let draft = Draft {
            directory: place.directory,
            file: file.into(),
            temporary,
            name: place.name,
            mode: Mode::from_raw_mode(mode),
            existing: place.existing,
            committed: false,
        };
        let existing = draft.existing.as_ref().map(|stat| {
            (
                self.preserved_owner(stat.st_uid),
                self.preserved_owner(stat.st_gid),
            )
        });
        let owner = options
            .owner
            .map(|(user, group)| (self.mounted_owner(user), self.mounted_owner(group)));
        if let Some((user, group)) = owner.or(existing) {
            fchown(
                &draft.file,
                Some(Uid::from_raw(user)),
                Some(Gid::from_raw(group)),
            )
            .map_err(complain)?;
        }
        Ok(draft)
    }
}

impl Draft {
    /// Returns the metadata of the file to be replaced, from when the draft was started.
    pub fn existing(&self) -> Option<&Stat> {
        self.existing.as_ref()
    }

    /// Appends bytes. After an error, a part may have been written; do not commit the draft.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| {
            Error::io(
                format!("write `{}`", shown_path(Path::new(&self.name))),
                error,
            )
        })
    }

    /// Sets an extended attribute; its name begins with `user.`.
    pub fn set_attribute(&self, name: &str, value: &[u8]) -> Result<()> {
        let complain = |errno: Errno| match errno {
            Errno::OPNOTSUPP => Error::new(
                ErrorCode::Unavailable,
                "file system does not support extended attributes",
            )
            .with_field("attributes")
            .with_hint("write without attributes, or store them in a separate file"),
            Errno::TOOBIG | Errno::RANGE | Errno::INVAL => Error::invalid(
                "attributes",
                format!("attribute `{name}` or its value is too long"),
            )
            .with_hint("use at most 255 bytes for the name and a few KiB for all values"),
            errno => Error::io(
                format!(
                    "set attribute `{name}` of `{}`",
                    shown_path(Path::new(&self.name))
                ),
                errno.into(),
            ),
        };
        if !name.starts_with(USER_ATTRIBUTES) {
            return Err(
                Error::invalid("attributes", format!("attribute `{name}` may not be set"))
                    .with_hint("begin its name with `user.`"),
            );
        }
        let name = CString::new(name).map_err(|_| complain(Errno::INVAL))?;
        xattrs::XattrTarget::Open(&self.file)
            .set(&name, value)
            .map_err(complain)
    }

    /// Renames the file to its target name, atomically.
    pub fn commit(mut self) -> Result<()> {
        let complain = |errno| failure(&self.name, errno);
        // Last, because some file systems clear setuid bits on write.
        fchmod(&self.file, self.mode).map_err(complain)?;
        renameat(
            &self.directory,
            &self.temporary,
            &self.directory,
            &self.name,
        )
        .map_err(complain)?;
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
