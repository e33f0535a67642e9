//! `mount_setattr`, which rustix does not have.

#![expect(unsafe_code, reason = "rustix has no `mount_setattr`")]

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use rustix::{io::Errno, mount::MountAttrFlags};
use sandbar_core::OwnerMap;

/// What every mount of a session carries: device nodes open nothing and setuid bits raise nobody.
pub(crate) const HARMLESS: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NODEV.union(MountAttrFlags::MOUNT_ATTR_NOSUID);

/// Which mounts are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Alone,
    WithSubmounts,
}

/// What is changed about a mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MountAttributes<'a> {
    /// Switched on; others stay as they are.
    pub(crate) flags: MountAttrFlags,
    /// Owner `n` on disk is shown as `first + n`. Only a mount that is attached nowhere takes it.
    pub(crate) owners: Option<&'a OwnerMap>,
    /// Later mounts elsewhere do not appear here, nor the other way round.
    pub(crate) private: bool,
}

impl MountAttributes<'_> {
    /// Changes the mount `root` is open on; it must be the root of that mount.
    pub(crate) fn apply(&self, root: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno> {
        let (idmap, namespace) = match self.owners {
            None => (MountAttrFlags::empty(), 0),
            // A descriptor is never negative.
            Some(owners) => (MountAttrFlags::MOUNT_ATTR_IDMAP, owners.as_fd().as_raw_fd().unsigned_abs().into()),
        };
        let attributes = libc::mount_attr {
            attr_set: (self.flags | idmap).bits().into(),
            attr_clr: 0,
            propagation: if self.private { libc::MS_PRIVATE } else { 0 },
            userns_fd: namespace,
        };
        let recursive = if extent == Extent::WithSubmounts { libc::AT_RECURSIVE } else { 0 };
        // SAFETY: the path is a C string, the attributes live until the call returns and their size is passed with
        // them; the kernel only reads both. The descriptors stay open meanwhile, because they are borrowed.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                root.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH | recursive,
                &raw const attributes,
                size_of::<libc::mount_attr>(),
            )
        };
        if outcome == 0 {
            return Ok(());
        }
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}
