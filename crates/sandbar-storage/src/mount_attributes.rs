//! `mount_setattr`, which rustix does not have.

#![expect(unsafe_code, reason = "rustix has no `mount_setattr`")]

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use rustix::{io::Errno, mount::MountAttrFlags};
use sandbar_core::OwnerMap;

/// Flags of every session mount: device nodes cannot be opened, setuid bits are ignored.
pub(crate) const NOSUID_NODEV: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NODEV.union(MountAttrFlags::MOUNT_ATTR_NOSUID);

/// Mounts that a change applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Alone,
    WithSubmounts,
}

/// Changes to a mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MountAttributes<'a> {
    /// Flags to set; others stay unchanged.
    pub(crate) flags: MountAttrFlags,
    /// Owner `n` on disk is shown as `first + n`. Only a detached mount can be ID-mapped.
    pub(crate) owners: Option<&'a OwnerMap>,
    /// Private propagation: mount events are neither received nor sent.
    pub(crate) private: bool,
}

impl MountAttributes<'_> {
    /// Changes the mount that `root`, the root of that mount, is open on.
    pub(crate) fn apply(&self, root: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno> {
        let (idmap, namespace) = match self.owners {
            None => (MountAttrFlags::empty(), 0),
            // A descriptor is never negative.
            Some(owners) => (
                MountAttrFlags::MOUNT_ATTR_IDMAP,
                owners.as_fd().as_raw_fd().unsigned_abs().into(),
            ),
        };
        let attributes = libc::mount_attr {
            attr_set: (self.flags | idmap).bits().into(),
            attr_clr: 0,
            propagation: if self.private { libc::MS_PRIVATE } else { 0 },
            userns_fd: namespace,
        };
        let recursive = if extent == Extent::WithSubmounts {
            libc::AT_RECURSIVE
        } else {
            0
        };
        // SAFETY: the path is a C string, the attributes live until the call returns and their size
        // is passed with them; the kernel only reads both. The descriptors stay open meanwhile,
        // because they are borrowed.
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
