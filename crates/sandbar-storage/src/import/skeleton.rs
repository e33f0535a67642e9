//! Directories every base has, because every sandbox needs them.

use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::Path};

use rustix::{
    fs::{self, AtFlags, Gid, Mode, OFlags, Uid},
    io::Errno,
    process::geteuid,
};
use sandbar_core::{Error, Result};

/// The ordinary user of a sandbox.
pub(super) const USER: u32 = 1000;

struct Needed {
    path: &'static str,
    mode: u32,
    owner: u32,
}

/// `/workspace` belongs to the ordinary user: work happens there, and a directory everybody may write to invites
/// mistakes.
const NEEDED: [Needed; 8] = [
    Needed { path: "tmp", mode: 0o1777, owner: 0 },
    Needed { path: "workspace", mode: 0o755, owner: USER },
    Needed { path: "proc", mode: 0o555, owner: 0 },
    Needed { path: "sys", mode: 0o555, owner: 0 },
    Needed { path: "dev", mode: 0o755, owner: 0 },
    Needed { path: "etc", mode: 0o755, owner: 0 },
    Needed { path: "run", mode: 0o755, owner: 0 },
    Needed { path: "root", mode: 0o700, owner: 0 },
];

/// Makes what is missing and leaves alone what is there, whatever it is. Only the root itself is opened to everybody:
/// a tree built in a private directory would be one where nobody but root can do anything.
pub(super) fn complete(rootfs: &Path) -> Result<()> {
    let failure = |error| Error::io("open the root of the base to everybody", error);
    let mode = std::fs::metadata(rootfs).map_err(failure)?.permissions().mode();
    std::fs::set_permissions(rootfs, Permissions::from_mode(mode | 0o555)).map_err(failure)?;
    NEEDED.iter().try_for_each(|needed| make(rootfs, needed.path, needed.mode, needed.owner))
}

/// Makes one directory of the tree being built, unless something has its name.
pub(super) fn make(rootfs: &Path, path: &str, mode: u32, owner: u32) -> Result<()> {
    let failure = |errno: Errno| Error::io(format!("make directory `/{path}` of the base"), errno.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = fs::open(rootfs, flags, Mode::empty()).map_err(failure)?;
    match fs::mkdirat(&root, path, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(()),
        Err(errno) => return Err(failure(errno)),
    }
    if geteuid().is_root() {
        let (uid, gid) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)));
        fs::chownat(&root, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(failure)?;
    }
    fs::chmodat(&root, path, Mode::from_raw_mode(mode), AtFlags::empty()).map_err(failure)
}
