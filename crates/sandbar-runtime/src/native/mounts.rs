//! Assembly of a box's root file system.

use std::{
    ffi::CStr,
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    mount::{MountAttrFlags, open_tree},
};

use super::{
    mount_attributes::{Attributes, allow_set_user_id, set_attributes},
    mount_calls::{
        CLONE_RECURSIVE, PLAIN_FILES, attach, attach_at, create_directory, file_system,
        mount_point, open_directory, pivot_into,
    },
    prepared_mounts::PreparedMounts,
    template::ROOT,
    trust_store,
};
use crate::protocol::TrustOrder;

/// Gid of the group `tty`, which owns terminals.
const TTY_GID: u32 = 5;

/// Session-specific parts of a native box's root.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    /// Detached mount that becomes `/`.
    pub(super) root: &'a OwnedFd,
    /// User namespace of the box and host uid of its root, if the tree is an idmapped mount.
    pub(super) owners: Option<(BorrowedFd<'a>, u32)>,
    pub(super) users: Users,
    pub(super) trust: Option<&'a TrustOrder>,
    /// Honour set-user-id bits in the tree. They can only lead to users of the box, because its
    /// user namespace maps no others.
    pub(super) allow_set_user_id: bool,
}

/// Users that a native box's user namespace maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// A range of uids and gids.
    Range,
    /// Root only, which is the caller on the host.
    OnlyCaller,
}

/// Clones the tree at a path with everything mounted below it, as a detached mount.
pub(super) fn clone_tree(path: &CStr) -> io::Result<OwnedFd> {
    Ok(open_tree(CWD, path, CLONE_RECURSIVE)?)
}

/// Assembles the root of a native box in the template and pivots into it, which unmounts the
/// template.
pub(super) fn assemble(mounts: &PreparedMounts<'_>, parts: &Parts<'_>) -> io::Result<()> {
    let PreparedMounts {
        proc, devices, shm, ..
    } = mounts;
    if parts.allow_set_user_id {
        // Affects this detached copy of the mounts only.
        allow_set_user_id(parts.root)?;
    }
    let root = attach_root(parts.root)?;
    let first = parts.owners.map(|(_, first)| first);
    let proc_target = mount_point(&root, "proc", first)?;
    let dev_target = mount_point(&root, "dev", first)?;
    create_directory(&root, "tmp", 0o1777, first)?;

    attach(proc, &proc_target)?;
    if first.is_none() {
        mounts.cover_root_entries()?;
    }
    let read_only = Attributes::READ_ONLY
        .union(Attributes::NO_SUID)
        .union(Attributes::NO_EXEC);
    set_attributes(
        devices,
        read_only,
        parts.owners.map(|(namespace, _)| namespace),
    )?;
    attach(devices, &dev_target)?;
    let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let group = (first.unwrap_or(0) + TTY_GID).to_string();
    // All boxes share the machine's limit of 4096 terminals.
    let mut options = vec![("ptmxmode", "0666"), ("mode", "0620"), ("max", "64")];
    if parts.users == Users::Range {
        options.push(("gid", &group));
    }
    let terminals = file_system("devpts", &options, no_programs)?;
    attach(&terminals, &open_directory(devices, "pts")?)?;
    attach(shm, &open_directory(devices, "shm")?)?;
    if let Some(trust) = parts.trust {
        let target = open_directory(devices, trust_store::DIRECTORY)?;
        trust_store::mount(trust, &root, &target, first)?;
    }
    pivot_into(ROOT)
}

/// Assembles the root of an unisolated box and pivots into it: the session's tree with the host's
/// processes and devices.
pub(super) fn assemble_unisolated(tree: &OwnedFd, devices: &OwnedFd) -> io::Result<()> {
    let root = attach_root(tree)?;
    let proc_target = mount_point(&root, "proc", None)?;
    let dev_target = mount_point(&root, "dev", None)?;
    attach(&file_system("proc", &[], PLAIN_FILES)?, &proc_target)?;
    attach(devices, &dev_target)?;
    pivot_into(ROOT)
}

fn attach_root(tree: &OwnedFd) -> io::Result<OwnedFd> {
    attach_at(tree, ROOT)?;
    Ok(openat(
        CWD,
        ROOT,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}
