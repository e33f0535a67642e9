//! Opening the pipes and directories that commands and connections need.

use std::{ffi::CStr, io, os::fd::OwnedFd};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
};

use super::relay::Ends;

pub(super) fn open_dev_null() -> io::Result<OwnedFd> {
    Ok(openat(
        CWD,
        "/dev/null",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Opens the named pipes `in`, `out` and `err` of a command. Does not block, because the host has
/// already opened its ends.
pub(super) fn open_streams(directory: &CStr) -> io::Result<[OwnedFd; 3]> {
    let directory = open_directory(directory)?;
    let open = |name: &str, flags| openat(&directory, name, flags | OFlags::CLOEXEC, Mode::empty());
    Ok([
        open("in", OFlags::RDONLY)?,
        open("out", OFlags::WRONLY)?,
        open("err", OFlags::WRONLY)?,
    ])
}

/// Opens the named pipes of a connection. Non-blocking, because the host may have given up and
/// closed its ends.
pub(super) fn open_connection(directory: &CStr) -> io::Result<Ends> {
    let directory = open_directory(directory)?;
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = |name: &str, access: OFlags| openat(&directory, name, access | flags, Mode::empty());
    Ok(Ends {
        input: open("in", OFlags::RDONLY)?,
        output: open("out", OFlags::WRONLY)?,
        we_read: Some(open("err", OFlags::WRONLY)?),
        host_reads: Some(open("live", OFlags::RDONLY)?),
    })
}

fn open_directory(path: &CStr) -> io::Result<OwnedFd> {
    Ok(openat(
        CWD,
        path,
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Opens a working directory with `root` as the root of the path, symbolic links included.
pub(super) fn open_in_root(root: &OwnedFd, path: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    loop {
        match openat2(
            root,
            path,
            flags,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        ) {
            // A concurrent rename anywhere on the machine made the kernel give up on a `..`.
            Err(Errno::AGAIN) => {}
            outcome => return Ok(outcome?),
        }
    }
}
