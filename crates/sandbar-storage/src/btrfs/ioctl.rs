//! Wrappers of the btrfs ioctls; the only unsafe code of this backend beside loop devices.

#![expect(unsafe_code, reason = "btrfs has no other interface than ioctl")]

use std::{
    fs::File,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use rustix::io::{Errno, Result};

const MAGIC: u64 = 0x94;
const NAME_V1: usize = 4088;
const NAME_V2: usize = 4040;
const SUBVOLUME_READ_ONLY: u64 = 1 << 1;
const FIRST_FREE_OBJECT: u64 = 256;
const QUOTA_TREE: u64 = 8;
const QGROUP_INFO_KEY: u32 = 242;
const LIMIT_MAX_REFERENCED: u64 = 1;

/// Builds a request number the way `_IOC` does: direction 1 writes to the kernel, 2 reads from it,
/// 3 does both.
const fn request(direction: u64, number: u64, size: usize) -> u64 {
    direction << 30 | (size as u64) << 16 | MAGIC << 8 | number
}

const RESIZE: u64 = request(1, 3, size_of::<VolumeArguments>());
const SYNC: u64 = request(0, 8, 0);
const SUBVOLUME_CREATE: u64 = request(1, 14, size_of::<VolumeArguments>());
const SNAPSHOT_DESTROY: u64 = request(1, 15, size_of::<VolumeArguments>());
const SNAPSHOT_CREATE_V2: u64 = request(1, 23, size_of::<VolumeArgumentsV2>());
const INODE_LOOKUP: u64 = request(3, 18, size_of::<InodeLookup>());
const TREE_SEARCH: u64 = request(3, 17, size_of::<TreeSearch>());
const QUOTA_CONTROL: u64 = request(3, 40, size_of::<QuotaControl>());
const QGROUP_LIMIT: u64 = request(2, 43, size_of::<QgroupLimit>());
const GET_SUBVOLUME_INFO: u64 = request(2, 60, size_of::<SubvolumeInfo>());
const SUBVOLUME_SYNC_WAIT: u64 = request(1, 65, size_of::<SubvolumeWait>());

#[repr(C)]
struct VolumeArguments {
    fd: i64,
    name: [u8; NAME_V1],
}

#[repr(C)]
struct VolumeArgumentsV2 {
    fd: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; NAME_V2],
}

#[repr(C)]
struct InodeLookup {
    tree: u64,
    object: u64,
    name: [u8; 4080],
}

#[repr(C)]
struct SearchKey {
    tree: u64,
    min_object: u64,
    max_object: u64,
    min_offset: u64,
    max_offset: u64,
    min_transaction: u64,
    max_transaction: u64,
    min_type: u32,
    max_type: u32,
    items: u32,
    unused: u32,
    unused_words: [u64; 4],
}

#[repr(C)]
struct TreeSearch {
    key: SearchKey,
    buffer: [u8; 3992],
}

#[repr(C)]
struct QuotaControl {
    command: u64,
    status: u64,
}

#[repr(C)]
struct QgroupLimit {
    qgroup: u64,
    flags: u64,
    max_referenced: u64,
    max_exclusive: u64,
    reserved_referenced: u64,
    reserved_exclusive: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct TimeSpec {
    seconds: u64,
    nanoseconds: u32,
}

#[repr(C)]
struct SubvolumeInfo {
    tree: u64,
    name: [u8; 256],
    parent: u64,
    directory: u64,
    generation: u64,
    flags: u64,
    uuids: [[u8; 16]; 3],
    transactions: [u64; 4],
    changed: TimeSpec,
    created: TimeSpec,
    sent: TimeSpec,
    received: TimeSpec,
    reserved: [u64; 8],
}

#[repr(C)]
struct SubvolumeWait {
    subvolume: u64,
    mode: u32,
    count: u32,
}

/// Mode of quota accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaMode {
    /// Simple quotas (kernel 6.7): an extent is charged to the subvolume that wrote it. No cost at
    /// snapshot or deletion.
    Simple,
    /// Full quota groups: exact, and slow with many snapshots.
    Full,
}

/// Calls `ioctl` with a pointer to `argument`.
///
/// Private on purpose: only the wrappers below pair a request with the argument type it was made
/// for.
fn call<T>(fd: BorrowedFd<'_>, request: u64, argument: &mut T) -> Result<()> {
    // SAFETY: `fd` is open for the length of the call, and each request number above is built from
    // the size of the `repr(C)` type it is called with, so the kernel reads and writes only inside
    // `argument`.
    let outcome = unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            request as libc::Ioctl,
            std::ptr::from_mut(argument),
        )
    };
    if outcome < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(())
}

fn name_field<const N: usize>(name: &[u8]) -> Result<[u8; N]> {
    // The field includes the terminating NUL.
    if name.len() >= N {
        return Err(Errno::NAMETOOLONG);
    }
    let mut field = [0; N];
    field[..name.len()].copy_from_slice(name);
    Ok(field)
}

/// Creates an empty subvolume `name` in the directory `parent`.
pub(super) fn create_subvolume(parent: &File, name: &[u8]) -> Result<()> {
    let mut arguments = VolumeArguments {
        fd: 0,
        name: name_field(name)?,
    };
    call(parent.as_fd(), SUBVOLUME_CREATE, &mut arguments)
}

/// Creates `name` in the directory `parent` as a snapshot of the subvolume `source` is open on.
pub(super) fn create_snapshot(
    source: &File,
    parent: &File,
    name: &[u8],
    read_only: bool,
) -> Result<()> {
    let mut arguments = VolumeArgumentsV2 {
        fd: i64::from(source.as_raw_fd()),
        transaction: 0,
        flags: if read_only { SUBVOLUME_READ_ONLY } else { 0 },
        unused: [0; 4],
        name: name_field(name)?,
    };
    call(parent.as_fd(), SNAPSHOT_CREATE_V2, &mut arguments)
}

/// Removes the subvolume `name` from the directory `parent`. Its space is freed in the background.
pub(super) fn destroy_subvolume(parent: &File, name: &[u8]) -> Result<()> {
    let mut arguments = VolumeArguments {
        fd: 0,
        name: name_field(name)?,
    };
    call(parent.as_fd(), SNAPSHOT_DESTROY, &mut arguments)
}

/// Grows the file system to all of its device.
pub(super) fn resize_to_device(root: &File) -> Result<()> {
    let mut arguments = VolumeArguments {
        fd: 0,
        name: name_field(b"max")?,
    };
    call(root.as_fd(), RESIZE, &mut arguments)
}

/// Returns the id of the subvolume of a directory.
pub(super) fn subvolume_id(directory: &File) -> Result<u64> {
    let mut arguments = InodeLookup {
        tree: 0,
        object: FIRST_FREE_OBJECT,
        name: [0; 4080],
    };
    call(directory.as_fd(), INODE_LOOKUP, &mut arguments)?;
    Ok(arguments.tree)
}

/// Returns a subvolume's id and creation time, in seconds and nanoseconds of the epoch.
pub(super) fn subvolume_birth(subvolume: &File) -> Result<(u64, u64, u32)> {
    let nothing = TimeSpec {
        seconds: 0,
        nanoseconds: 0,
    };
    let mut info = SubvolumeInfo {
        tree: 0,
        name: [0; 256],
        parent: 0,
        directory: 0,
        generation: 0,
        flags: 0,
        uuids: [[0; 16]; 3],
        transactions: [0; 4],
        changed: nothing,
        created: nothing,
        sent: nothing,
        received: nothing,
        reserved: [0; 8],
    };
    call(subvolume.as_fd(), GET_SUBVOLUME_INFO, &mut info)?;
    Ok((info.tree, info.created.seconds, info.created.nanoseconds))
}

/// Enables quotas. `Ok` also if they are enabled in the same mode.
pub(super) fn enable_quota(root: &File, mode: QuotaMode) -> Result<()> {
    let command = match mode {
        QuotaMode::Full => 1,
        QuotaMode::Simple => 4,
    };
    call(
        root.as_fd(),
        QUOTA_CONTROL,
        &mut QuotaControl { command, status: 0 },
    )
}

/// Limits the referenced space of the subvolume; `None` removes the limit.
pub(super) fn limit_subvolume(root: &File, subvolume: u64, limit: Option<u64>) -> Result<()> {
    let mut arguments = QgroupLimit {
        qgroup: subvolume,
        flags: LIMIT_MAX_REFERENCED,
        // All ones removes a limit.
        max_referenced: limit.unwrap_or(u64::MAX),
        max_exclusive: 0,
        reserved_referenced: 0,
        reserved_exclusive: 0,
    };
    call(root.as_fd(), QGROUP_LIMIT, &mut arguments)
}

/// Returns the bytes charged to a subvolume; `None` when the quota tree has no entry.
pub(super) fn referenced_bytes(root: &File, subvolume: u64) -> Result<Option<u64>> {
    // A search header is object, offset (u64), type, length (u32) behind a u64 transaction: 32
    // bytes. The item behind it starts with generation and referenced.
    const HEADER: usize = 32;
    let mut search = TreeSearch {
        key: SearchKey {
            tree: QUOTA_TREE,
            min_object: 0,
            max_object: 0,
            min_offset: subvolume,
            max_offset: subvolume,
            min_transaction: 0,
            max_transaction: u64::MAX,
            min_type: QGROUP_INFO_KEY,
            max_type: QGROUP_INFO_KEY,
            items: 1,
            unused: 0,
            unused_words: [0; 4],
        },
        buffer: [0; 3992],
    };
    call(root.as_fd(), TREE_SEARCH, &mut search)?;
    if search.key.items == 0 {
        return Ok(None);
    }
    let mut referenced = [0; 8];
    referenced.copy_from_slice(&search.buffer[HEADER + 8..HEADER + 16]);
    Ok(Some(u64::from_le_bytes(referenced)))
}

/// Commits the running transaction and wakes the cleaner thread, which frees the space of deleted
/// subvolumes.
pub(super) fn sync(root: &File) -> Result<()> {
    call(root.as_fd(), SYNC, &mut ())
}

/// Waits until every subvolume queued for deletion is removed.
pub(super) fn wait_for_deleted(root: &File) -> Result<()> {
    const FOR_QUEUED: u32 = 1;
    call(
        root.as_fd(),
        SUBVOLUME_SYNC_WAIT,
        &mut SubvolumeWait {
            subvolume: 0,
            mode: FOR_QUEUED,
            count: 0,
        },
    )
}
