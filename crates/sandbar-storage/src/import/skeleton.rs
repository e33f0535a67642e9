//! Directories that every sandbox needs, added to every base.

use std::path::Path;

use rustix::{
    fs::{self, AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid},
    io::Errno,
    process::geteuid,
};
use sandbar_core::{Error, Result};
use sandbar_tree::descent::EntryStat;

/// Uid of the ordinary user of a sandbox.
pub(super) const USER: u32 = 1000;

struct Needed {
    path: &'static str,
    mode: u32,
    owner: u32,
}

/// `/workspace` belongs to root, the default user of commands: without capabilities, root may write
/// only to its own files.
const NEEDED: [Needed; 8] = [
    Needed {
        path: "tmp",
        mode: 0o1777,
        owner: 0,
    },
    Needed {
        path: "workspace",
        mode: 0o755,
        owner: 0,
    },
    Needed {
        path: "proc",
        mode: 0o555,
        owner: 0,
    },
    Needed {
        path: "sys",
        mode: 0o555,
        owner: 0,
    },
    Needed {
        path: "dev",
        mode: 0o755,
        owner: 0,
    },
    Needed {
        path: "etc",
        mode: 0o755,
        owner: 0,
    },
    Needed {
        path: "run",
        mode: 0o755,
        owner: 0,
    },
    Needed {
        path: "root",
        mode: 0o700,
        owner: 0,
    },
];

/// Creates missing directories and leaves existing entries alone. The root itself becomes
/// world-accessible: the mode of the private directory it was built in would lock out ordinary
/// users.
///
/// The same source gives the same tree, including the times of directories created here.
pub(super) fn complete(rootfs: &Path) -> Result<()> {
    let failure = |errno: Errno| Error::io("complete the root of the base", errno.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = fs::open(rootfs, flags, Mode::empty()).map_err(failure)?;
    let stat = EntryStat::of(&root).map_err(failure)?;
    for needed in &NEEDED {
        if make(rootfs, needed.path, needed.mode, needed.owner)? {
            let long_ago = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let times = Timestamps {
                last_access: long_ago,
                last_modification: long_ago,
            };
            fs::utimensat(&root, needed.path, &times, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(failure)?;
        }
    }
    fs::fchmod(&root, Mode::from_raw_mode(stat.mode | 0o555)).map_err(failure)?;
    fs::futimens(&root, &stat.timestamps()).map_err(failure)
}

/// Creates one directory of the tree under construction; `false` when the name exists.
pub(super) fn make(rootfs: &Path, path: &str, mode: u32, owner: u32) -> Result<bool> {
    let failure = |errno: Errno| {
        Error::io(
            format!("make directory `/{path}` of the base"),
            errno.into(),
        )
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = fs::open(rootfs, flags, Mode::empty()).map_err(failure)?;
    match fs::mkdirat(&root, path, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(errno) => return Err(failure(errno)),
    }
    if geteuid().is_root() {
        let (uid, gid) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)));
        fs::chownat(&root, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(failure)?;
    }
    fs::chmodat(&root, path, Mode::from_raw_mode(mode), AtFlags::empty()).map_err(failure)?;
    Ok(true)
}
