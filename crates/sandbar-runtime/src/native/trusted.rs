//! The certificates a box shows beside its tree: in a file system of their own, which nobody can write to.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, openat, openat2},
    io::Errno,
};

use super::{
    mount_attributes::{Attributes, set_attributes},
    mounts::{FileSystemOwner, PLAIN_FILES, attach, clone, file_system},
};
use crate::{
    protocol::TrustOrder,
    runtime::{TREE_BUNDLES, TRUST_AUTHORITY, TRUST_BUNDLE},
};

/// Its name in the directory of devices.
pub(super) const DIRECTORY: &str = "sandbar";

/// Shows them at `place`, and in the place of what the tree at `root` trusts. Nothing of it lies in the tree.
pub(super) fn show(trust: &TrustOrder, root: &OwnedFd, place: &OwnedFd, first_owner: Option<u32>) -> io::Result<()> {
    let owner = first_owner.unwrap_or(0).to_string();
    let mut options = vec![("mode", "755")];
    if first_owner.is_some() {
        options.extend([("uid", owner.as_str()), ("gid", owner.as_str())]);
    }
    let shown = file_system("tmpfs", &options, PLAIN_FILES)?;
    for (name, text) in [(TRUST_AUTHORITY, &trust.authority), (TRUST_BUNDLE, &trust.bundle)] {
        write(&shown, name, text, first_owner)?;
    }
    set_attributes(
        &shown,
        Attributes::READ_ONLY | Attributes::NO_SUID | Attributes::NO_EXEC | Attributes::NO_DEVICES,
        None,
    )?;
    attach(&shown, place)?;
    for path in TREE_BUNDLES {
        if let Some(own) = regular_file(root, path)? {
            attach(&clone(shown.as_fd(), TRUST_BUNDLE)?, &own)?;
        }
    }
    Ok(())
}

fn write(directory: &OwnedFd, name: &str, text: &CStr, owner: Option<u32>) -> io::Result<()> {
    let taken = FileSystemOwner::take(owner);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::from_raw_mode(0o444))?;
    // The mask of the process may have taken bits away.
    fchmod(&file, Mode::from_raw_mode(0o444))?;
    drop(taken);
    let mut rest = text.to_bytes();
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    Ok(())
}

/// The file at this path, if there is one that is reached without links: a session must not choose where we mount.
fn regular_file(root: &OwnedFd, path: &str) -> io::Result<Option<OwnedFd>> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match openat2(root, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(file) => {
            let is_regular = FileType::from_raw_mode(fstat(&file)?.st_mode).is_file();
            Ok(is_regular.then_some(file))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
