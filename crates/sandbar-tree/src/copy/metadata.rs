//! Owner, attributes, mode and times of a copied entry.

use std::{ffi::CStr, os::fd::BorrowedFd};

use rustix::{
    fs::{self, AtFlags, FileType, Gid, Mode, Uid},
    io::Errno,
};
use sandbar_core::Result;

use super::{options::OverlayInternals, tree::TreeCopy};
use crate::{
    descent::{EntryStat, chmod_named},
    xattrs::{XattrTarget, is_overlay_internal},
};

/// Entry of the source or of the copy.
pub(super) type Target<'a> = XattrTarget<'a, BorrowedFd<'a>>;

impl TreeCopy<'_> {
    /// Sets owner, attributes, mode and times of the copy `to` from `stat` and `from`.
    ///
    /// The order matters: changing the owner clears setuid bits and file capabilities, writing
    /// attributes needs a file its owner may write to, and everything changes the times.
    pub(super) fn finish(
        &mut self,
        from: &Target<'_>,
        to: &Target<'_>,
        stat: &EntryStat,
    ) -> Result<()> {
        let (uid, gid) = (Uid::from_raw(stat.uid), Gid::from_raw(stat.gid));
        let owned = match to {
            XattrTarget::Open(fd) => fs::fchown(fd, Some(uid), Some(gid)),
            XattrTarget::Named(directory, name) => fs::chownat(
                directory,
                *name,
                Some(uid),
                Some(gid),
                AtFlags::SYMLINK_NOFOLLOW,
            ),
        };
        self.tolerate(owned, "owner")?;
        self.attributes(from, to)?;
        if stat.kind != FileType::Symlink {
            let mode = Mode::from_raw_mode(stat.mode);
            match to {
                XattrTarget::Open(fd) => fs::fchmod(fd, mode),
                XattrTarget::Named(directory, name) => chmod_named(directory, name, mode),
            }
            .map_err(|errno| self.failure("set mode of", errno))?;
        }
        match to {
            XattrTarget::Open(fd) => fs::futimens(fd, &stat.timestamps()),
            XattrTarget::Named(directory, name) => fs::utimensat(
                directory,
                *name,
                &stat.timestamps(),
                AtFlags::SYMLINK_NOFOLLOW,
            ),
        }
        .map_err(|errno| self.failure("set times of", errno))
    }

    fn attributes(&mut self, from: &Target<'_>, to: &Target<'_>) -> Result<()> {
        let names = from
            .list()
            .map_err(|errno| self.failure("list attributes of", errno))?;
        for name in names {
            if self.options.overlay_internals == OverlayInternals::Drop
                && is_overlay_internal(&name)
            {
                continue;
            }
            let value = match from.get(&name) {
                Ok(value) => value,
                // Gone since it was listed.
                Err(Errno::NODATA) => continue,
                Err(errno) => return Err(self.failure("read attributes of", errno)),
            };
            let written = to.set(&name, &value);
            self.tolerate(written, attribute_name(&name))?;
        }
        Ok(())
    }

    /// With [`Fidelity::BestEffort`](super::Fidelity::BestEffort), notes metadata that the user may
    /// not set or the file system cannot store, instead of failing.
    fn tolerate(&mut self, outcome: Result<(), Errno>, what: &str) -> Result<()> {
        match outcome {
            Ok(()) => Ok(()),
            // `EOVERFLOW`: an owner outside the map of an ID-mapped mount.
            Err(
                errno @ (Errno::PERM
                | Errno::ACCESS
                | Errno::OPNOTSUPP
                | Errno::INVAL
                | Errno::OVERFLOW),
            ) if self.lenient() => {
                self.summary.note(|| {
                    format!(
                        "`{}` does not keep its {what}: {errno}",
                        self.place.display()
                    )
                });
                Ok(())
            }
            Err(errno) => Err(self.failure("set metadata of", errno)),
        }
    }
}

fn attribute_name(name: &CStr) -> &str {
    name.to_str().unwrap_or("attributes")
}
