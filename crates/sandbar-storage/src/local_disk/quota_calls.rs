//! System calls of project quotas: `quotactl_fd` and `FS_IOC_FSSETXATTR`.

#![expect(unsafe_code, reason = "neither call has a safe wrapper")]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
};

const GET_ATTRIBUTES: libc::Ioctl = 0x801C_581F;
const SET_ATTRIBUTES: libc::Ioctl = 0x401C_5820;
const INHERIT_PROJECT: u32 = 0x200;
const PROJECT_QUOTA: u32 = 2;
const GET_QUOTA: u32 = command(3);
const SET_LIMIT: u32 = command(4);
const GET_STATE: u32 = command(5);
const STATE_ENFORCED: u16 = 1 << 5;
const FIELD_SOFT: u16 = 1 << 2;
const FIELD_HARD: u16 = 1 << 3;

/// `QCMD(XQM_CMD(number), PRJQUOTA)`.
const fn command(number: u32) -> u32 {
    (((b'X' as u32) << 8) + number) << 8 | PROJECT_QUOTA
}

/// `struct fsxattr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    padding: [u8; 8],
}

/// `struct fs_disk_quota`. Limits are counted in blocks of 512 bytes.
#[repr(C)]
#[derive(Default)]
struct DiskQuota {
    version: i8,
    flags: i8,
    fields: u16,
    id: u32,
    blocks_hard: u64,
    blocks_soft: u64,
    inodes_hard: u64,
    inodes_soft: u64,
    blocks: u64,
    inodes: u64,
    timers: [i32; 2],
    warnings: [u16; 2],
    padding: [i8; 4],
    realtime: [u64; 3],
    realtime_timer: i32,
    realtime_warnings: u16,
    padding_end: [u8; 10],
}

/// Used part of `struct fs_quota_stat`.
#[repr(C)]
struct QuotaState {
    version: i8,
    flags: u16,
    rest: [u64; 16],
}

// The kernel reads these by size and offset.
const _: () = assert!(size_of::<Attributes>() == 28 && size_of::<DiskQuota>() == 112);

fn checked(outcome: i64) -> io::Result<()> {
    if outcome < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn quota_call<T>(fd: RawFd, command: u32, id: u32, argument: &mut T) -> io::Result<()> {
    // SAFETY: each command is called below with the type it reads or fills, which outlives the
    // call; a descriptor that is not open only makes the call fail.
    checked(unsafe {
        libc::syscall(
            libc::SYS_quotactl_fd,
            fd,
            command,
            id,
            std::ptr::from_mut(argument),
        )
    })
}

/// Returns whether the file system of `directory` enforces project quotas.
pub(super) fn enforced(directory: &File) -> io::Result<bool> {
    let mut state = QuotaState {
        version: 0,
        flags: 0,
        rest: [0; 16],
    };
    quota_call(directory.as_raw_fd(), GET_STATE, 0, &mut state)?;
    Ok(state.flags & STATE_ENFORCED != 0)
}

/// Returns the blocks of 512 bytes charged to a project; 0 for an unused one.
pub(super) fn charged_blocks(directory: &File, project: u32) -> io::Result<u64> {
    let mut quota = DiskQuota::default();
    match quota_call(directory.as_raw_fd(), GET_QUOTA, project, &mut quota) {
        Ok(()) => Ok(quota.blocks),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Limits a project to `blocks` of 512 bytes; 0 removes the limit.
pub(super) fn limit(directory: &File, project: u32, blocks: u64) -> io::Result<()> {
    let mut quota = DiskQuota {
        version: 1,
        flags: 2,
        fields: FIELD_SOFT | FIELD_HARD,
        id: project,
        blocks_hard: blocks,
        blocks_soft: blocks,
        ..DiskQuota::default()
    };
    quota_call(directory.as_raw_fd(), SET_LIMIT, project, &mut quota)
}

/// Returns the project of a file.
pub(super) fn project(file: &File) -> io::Result<u32> {
    Ok(attributes(file)?.project)
}

/// Assigns a file to a project; new entries of a directory inherit it.
pub(super) fn join_project(file: &File, project: u32) -> io::Result<()> {
    let mut attributes = attributes(file)?;
    attributes.project = project;
    if file.metadata()?.is_dir() {
        attributes.flags |= INHERIT_PROJECT;
    }
    // SAFETY: the request number carries the size of `struct fsxattr`, which `Attributes` is laid
    // out as.
    checked(i64::from(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            SET_ATTRIBUTES,
            std::ptr::from_ref(&attributes),
        )
    }))
}

fn attributes(file: &File) -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: as in `join_project`; the kernel fills the structure.
    checked(i64::from(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            GET_ATTRIBUTES,
            std::ptr::from_mut(&mut attributes),
        )
    }))?;
    Ok(attributes)
}
