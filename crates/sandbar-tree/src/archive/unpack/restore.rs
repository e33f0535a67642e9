//! Metadata of an unpacked entry: owner, attributes, mode and time.

use std::{collections::BTreeSet, ffi::CStr, os::fd::BorrowedFd};

use rustix::{
    fs::{self, AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid},
    io::Errno,
};
use sandbar_core::Result;

use super::{
    place::Place,
    unpacker::{Unpacker, failure},
};
use crate::{
    archive::{ArchiveEntry, EntryKind},
    descent::chmod_named,
    xattrs::{self, is_overlay_internal},
};

type Target<'a> = xattrs::XattrTarget<'a, BorrowedFd<'a>>;

impl Unpacker<'_> {
    pub(super) fn restore_open(
        &mut self,
        entry: &ArchiveEntry,
        file: BorrowedFd<'_>,
    ) -> Result<()> {
        self.restore(entry, &Target::Open(file))
    }

    pub(super) fn restore_named(&mut self, entry: &ArchiveEntry, place: &Place) -> Result<()> {
        use std::os::fd::AsFd;
        self.restore(entry, &Target::Named(place.parent.as_fd(), &place.name))
    }

    /// Sets all metadata. The order matters: changing the owner clears setuid bits and file
    /// capabilities, setting attributes needs write permission, and every change updates the time.
    fn restore(&mut self, entry: &ArchiveEntry, target: &Target<'_>) -> Result<()> {
        let (uid, gid) = self.options.owner.unwrap_or((entry.uid, entry.gid));
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        let owned = match target {
            xattrs::XattrTarget::Open(fd) => fs::fchown(fd, uid, gid),
            xattrs::XattrTarget::Named(directory, name) => {
                fs::chownat(directory, *name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            }
        };
        if let Err(errno) = owned {
            self.tolerate(entry, "owner", errno)?;
        }
        self.attributes(entry, target)?;
        if !matches!(entry.kind, EntryKind::Symlink { .. }) {
            let mode = Mode::from_raw_mode(entry.mode);
            match target {
                xattrs::XattrTarget::Open(fd) => fs::fchmod(fd, mode),
                xattrs::XattrTarget::Named(directory, name) => chmod_named(directory, name, mode),
            }
            .map_err(|errno| failure(entry, errno))?;
        }
        let omit = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        };
        let times = Timestamps {
            last_access: omit,
            last_modification: entry.modified,
        };
        let outcome = match target {
            xattrs::XattrTarget::Open(fd) => fs::futimens(fd, &times),
            xattrs::XattrTarget::Named(directory, name) => {
                fs::utimensat(directory, *name, &times, AtFlags::SYMLINK_NOFOLLOW)
            }
        };
        outcome.or_else(|errno| self.tolerate(entry, "time", errno))
    }

    /// Sets the attributes of the entry and removes others, which may come from an existing
    /// directory or from the default ACL of the parent.
    fn attributes(&mut self, entry: &ArchiveEntry, target: &Target<'_>) -> Result<()> {
        let known: BTreeSet<&CStr> = entry.xattrs.iter().map(|(name, _)| &**name).collect();
        for name in target.list().map_err(|errno| failure(entry, errno))? {
            let wanted = known.contains(&*name);
            // SELinux labels are set by the machine's policy; overlayfs owns its attributes.
            if wanted || is_overlay_internal(&name) || name.as_bytes() == b"security.selinux" {
                continue;
            }
            match target.remove(&name) {
                Ok(()) | Err(Errno::NODATA) => {}
                Err(errno) => self.tolerate(entry, &name.to_string_lossy(), errno)?,
            }
        }
        for (name, value) in &entry.xattrs {
            if is_overlay_internal(name) {
                continue;
            }
            if let Err(errno) = target.set(name, value) {
                self.tolerate(entry, &name.to_string_lossy(), errno)?;
            }
        }
        Ok(())
    }

    fn tolerate(&mut self, entry: &ArchiveEntry, what: &str, errno: Errno) -> Result<()> {
        match errno {
            // `EOVERFLOW`: a time outside the range of the file system.
            Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::INVAL | Errno::OVERFLOW => {
                self.summary
                    .note(|| format!("`{}` does not keep its {what}: {errno}", entry.display()));
                Ok(())
            }
            errno => Err(failure(entry, errno)),
        }
    }
}
