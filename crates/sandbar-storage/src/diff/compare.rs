//! Comparison of two entries.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString},
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{FileType, Mode, OFlags, openat, readlinkat},
    io::Errno,
};
use sandbar_core::{Aspect, Aspects};
use sandbar_tree::xattrs::{XattrTarget, is_overlay_internal};

use super::merged::{Found, OpenDirectory, Origin};
/// Change times closer than this to a snapshot are not trusted: the clock is coarse, and a later
/// write can have the same time.
const RACY: Duration = Duration::from_millis(100);

/// Condition under which equal inode and change time prove a file unchanged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust {
    /// Change times before this moment are trusted; `None` when inodes are not stable.
    pub(super) before: Option<SystemTime>,
}

impl Trust {
    pub(super) fn new(stable_inodes: bool, frozen: [Option<SystemTime>; 2]) -> Self {
        let earliest = frozen.into_iter().flatten().min();
        Self {
            before: earliest
                .filter(|_| stable_inodes)
                .and_then(|moment| moment.checked_sub(RACY)),
        }
    }

    fn untouched(&self, a: &Found, b: &Found) -> bool {
        let Some(before) = self.before else {
            return false;
        };
        let changed = Duration::new(
            u64::try_from(a.stat.changed.tv_sec).unwrap_or(u64::MAX),
            u32::try_from(a.stat.changed.tv_nsec).unwrap_or(0),
        );
        a.origin == Origin::Upper
            && b.origin == Origin::Upper
            && a.stat.inode == b.stat.inode
            && a.stat.changed == b.stat.changed
            && a.stat.size == b.stat.size
            && SystemTime::UNIX_EPOCH
                .checked_add(changed)
                .is_some_and(|changed| changed < before)
    }
}

/// Entry and its open directory.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) directory: &'a OpenDirectory,
    pub(super) found: &'a Found,
}

/// Returns the aspects in which two entries of the same name and type differ.
pub(super) fn aspects(
    name: &CStr,
    from: Side<'_>,
    to: Side<'_>,
    trust: Trust,
) -> io::Result<Aspects> {
    let (a, b) = (&from.found.stat, &to.found.stat);
    if trust.untouched(from.found, to.found) {
        return Ok(Aspects::NONE);
    }
    let mut aspects = Aspects::NONE;
    let mut note = |differs: bool, aspect: Aspect| {
        if differs {
            aspects = aspects.with(aspect);
        }
    };
    note(a.mode != b.mode, Aspect::Mode);
    note((a.uid, a.gid) != (b.uid, b.gid), Aspect::Owner);
    note(a.modified != b.modified, Aspect::Time);
    let (left, right) = (
        from.directory.part(from.found.origin)?,
        to.directory.part(to.found.origin)?,
    );
    note(
        content_differs(name, (left, from.found), (right, to.found))?,
        Aspect::Content,
    );
    note(
        attributes(left, name)? != attributes(right, name)?,
        Aspect::Xattrs,
    );
    Ok(aspects)
}

fn content_differs(
    name: &CStr,
    from: (&OwnedFd, &Found),
    to: (&OwnedFd, &Found),
) -> io::Result<bool> {
    let (a, b) = (&from.1.stat, &to.1.stat);
    match a.kind {
        FileType::RegularFile => {
            if a.size != b.size {
                return Ok(true);
            }
            if a.size == 0 || a.identity() == b.identity() {
                return Ok(false);
            }
            bytes_differ(open_file(from.0, name)?, open_file(to.0, name)?)
        }
        FileType::Symlink => {
            Ok(readlinkat(from.0, name, Vec::new())? != readlinkat(to.0, name, Vec::new())?)
        }
        FileType::CharacterDevice | FileType::BlockDevice => Ok(a.node != b.node),
        _ => Ok(false),
    }
}

fn open_file(directory: &OwnedFd, name: &CStr) -> io::Result<File> {
    // Non-blocking, in case the file was replaced by a FIFO.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?.into())
}

fn bytes_differ(mut a: File, mut b: File) -> io::Result<bool> {
    let mut left = vec![0; 128 * 1024];
    let mut right = vec![0; 128 * 1024];
    loop {
        let got = read_full(&mut a, &mut left)?;
        if got != read_full(&mut b, &mut right)? || left[..got] != right[..got] {
            return Ok(true);
        }
        if got == 0 {
            return Ok(false);
        }
    }
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns the extended attributes of an entry, without internal ones of overlayfs.
fn attributes(directory: &OwnedFd, name: &CStr) -> io::Result<BTreeMap<CString, Vec<u8>>> {
    let place = XattrTarget::Named(directory, name);
    let mut attributes = BTreeMap::new();
    for attribute in place.list()? {
        if !is_overlay_internal(&attribute) {
            match place.get(&attribute) {
                Ok(value) => {
                    attributes.insert(attribute, value);
                }
                // Gone since it was listed.
                Err(Errno::NODATA) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(attributes)
}
