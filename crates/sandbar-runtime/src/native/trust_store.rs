//! CA certificates of a session in a native box: mounted read-only, outside the session's tree.

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
    mount_calls::{FileSystemOwner, PLAIN_FILES, attach, clone, file_system},
};
use sandbar_core::Result;

use crate::{
    Trust,
    environment::c_string,
    protocol::TrustOrder,
    trust::{AUTHORITY_FILE, BUNDLE_FILE, CA_BUNDLE_PATHS},
};

/// Mount point below `/dev`.
pub(super) const DIRECTORY: &str = "sandbar";

/// Builds the order for a box from the session's certificates.
pub(super) fn order(trust: &Trust) -> Result<TrustOrder> {
    Ok(TrustOrder {
        authority: c_string("trust", &trust.authority)?,
        bundle: c_string("trust", &trust.bundle)?,
    })
}

/// Mounts the certificates at `target`, and the bundle over each CA bundle in the tree at `root`.
/// The tree itself is not written to.
pub(super) fn mount(
    trust: &TrustOrder,
    root: &OwnedFd,
    target: &OwnedFd,
    first_owner: Option<u32>,
) -> io::Result<()> {
    let owner = first_owner.unwrap_or(0).to_string();
    let mut options = vec![("mode", "755")];
    if first_owner.is_some() {
        options.extend([("uid", owner.as_str()), ("gid", owner.as_str())]);
    }
    let certificates = file_system("tmpfs", &options, PLAIN_FILES)?;
    for (name, text) in [
        (AUTHORITY_FILE, &trust.authority),
        (BUNDLE_FILE, &trust.bundle),
    ] {
        write(&certificates, name, text, first_owner)?;
    }
    set_attributes(
        &certificates,
        Attributes::READ_ONLY
            .union(Attributes::NO_SUID)
            .union(Attributes::NO_EXEC)
            .union(Attributes::NO_DEVICES),
        None,
    )?;
    attach(&certificates, target)?;
    for path in CA_BUNDLE_PATHS {
        if let Some(own) = regular_file(root, path)? {
            attach(&clone(certificates.as_fd(), BUNDLE_FILE)?, &own)?;
        }
    }
    Ok(())
}

fn write(directory: &OwnedFd, name: &str, text: &CStr, owner: Option<u32>) -> io::Result<()> {
    let taken = FileSystemOwner::take(owner);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::from_raw_mode(0o444))?;
    // The umask may have cleared bits.
    fchmod(&file, Mode::from_raw_mode(0o444))?;
    drop(taken);
    let mut rest = text.to_bytes();
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    Ok(())
}

/// Opens the regular file at this path, if it exists and no component of the path is a symbolic
/// link: a session must not choose where the host mounts.
fn regular_file(root: &OwnedFd, path: &str) -> io::Result<Option<OwnedFd>> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match openat2(
        root,
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        resolve,
    ) {
        Ok(file) => {
            let is_regular = FileType::from_raw_mode(fstat(&file)?.st_mode).is_file();
            Ok(is_regular.then_some(file))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
