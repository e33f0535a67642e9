//! `mount_setattr`, which neither `libc` nor `rustix` wraps.

#![expect(unsafe_code, reason = "rustix has no `mount_setattr`")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

/// Restrictions of a mount.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes(u64);

impl Attributes {
    pub(super) const READ_ONLY: Self = Self(libc::MOUNT_ATTR_RDONLY);
    pub(super) const NO_SUID: Self = Self(libc::MOUNT_ATTR_NOSUID);
    pub(super) const NO_DEVICES: Self = Self(libc::MOUNT_ATTR_NODEV);
    pub(super) const NO_EXEC: Self = Self(libc::MOUNT_ATTR_NOEXEC);

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Restricts a detached mount. With a user namespace, also makes it an idmapped mount.
pub(super) fn set_attributes(
    mount: &OwnedFd,
    set: Attributes,
    owners: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut attributes = libc::mount_attr {
        attr_set: set.0,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    if let Some(owners) = owners {
        attributes.attr_set |= libc::MOUNT_ATTR_IDMAP;
        attributes.userns_fd = u64::try_from(owners.as_raw_fd()).unwrap_or_default();
    }
    apply(mount, &attributes, 0)
}

/// Honours set-user-id bits in a detached mount and all mounts below it.
pub(super) fn allow_set_user_id(mount: &OwnedFd) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: 0,
        attr_clr: libc::MOUNT_ATTR_NOSUID,
        propagation: 0,
        userns_fd: 0,
    };
    apply(mount, &attributes, libc::AT_RECURSIVE)
}

fn apply(mount: &OwnedFd, attributes: &libc::mount_attr, extent: i32) -> io::Result<()> {
    // SAFETY: the path is empty with `AT_EMPTY_PATH`, and the structure has the given size.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | extent,
            &raw const *attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
