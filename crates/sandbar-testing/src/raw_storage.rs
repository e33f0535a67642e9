//! The kernel's own calls, with nothing around them.

#![expect(unsafe_code, reason = "btrfs has no other interface than ioctl")]

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::Path,
    time::Instant,
};

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};

use crate::measure::milliseconds;

const CREATE: libc::Ioctl = 0x5000_940E;
const DESTROY: libc::Ioctl = 0x5000_940F;
const SNAPSHOT: libc::Ioctl = 0x5000_9417;
const SPACE_INFO: libc::Ioctl = 0xC010_9414;

/// Milliseconds an empty subvolume, an overlay over one, and the removal of both take: a session's
/// volume, and nothing else.
pub fn volume(pool: &Path, round: usize) -> f64 {
    let name = format!("raw-volume-{round}");
    let started = Instant::now();
    create_subvolume(pool, &name);
    let created = milliseconds(started);
    let mounted = overlay_mount(&pool.join(&name), round);
    let started = Instant::now();
    destroy(pool, &name);
    created + mounted + milliseconds(started)
}

/// Mounts an overlay over directories that are there already.
pub fn overlay_mount(scratch: &Path, round: usize) -> f64 {
    let place = scratch.join(round.to_string());
    let [lower, upper, work, target] =
        ["lower", "upper", "work", "merged"].map(|part| place.join(part));
    for part in [&lower, &upper, &work, &target] {
        fs::create_dir_all(part).unwrap();
    }
    let started = Instant::now();
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
    fsconfig_set_string(&context, "lowerdir", &lower).unwrap();
    fsconfig_set_string(&context, "upperdir", &upper).unwrap();
    fsconfig_set_string(&context, "workdir", &work).unwrap();
    fsconfig_create(&context).unwrap();
    let mounted = fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )
    .unwrap();
    move_mount(
        &mounted,
        "",
        rustix::fs::CWD,
        &target,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .unwrap();
    let took = milliseconds(started);
    unmount(&target, UnmountFlags::DETACH).unwrap();
    took
}

/// `struct btrfs_ioctl_vol_args`, and the second version, which is as large.
fn arguments(fd: i64, flags: u64, name_offset: usize, name: &str) -> [u8; 4096] {
    let mut arguments = [0; 4096];
    arguments[..8].copy_from_slice(&fd.to_ne_bytes());
    if flags != 0 {
        arguments[16..24].copy_from_slice(&flags.to_ne_bytes());
    }
    arguments[name_offset..name_offset + name.len()].copy_from_slice(name.as_bytes());
    arguments
}

fn call(directory: &File, request: libc::Ioctl, arguments: &[u8; 4096]) {
    // SAFETY: all three requests read one structure of 4096 bytes, which `arguments` is.
    let outcome = unsafe { libc::ioctl(directory.as_raw_fd(), request, arguments.as_ptr()) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

pub fn create_subvolume(parent: &Path, name: &str) {
    call(
        &File::open(parent).unwrap(),
        CREATE,
        &arguments(0, 0, 8, name),
    );
}

pub fn destroy(parent: &Path, name: &str) {
    call(
        &File::open(parent).unwrap(),
        DESTROY,
        &arguments(0, 0, 8, name),
    );
}

/// Takes and removes a read-only snapshot; the time is that of the first.
pub fn snapshot(parent: &Path, source: &str, name: &str) -> f64 {
    const READ_ONLY: u64 = 2;
    let (directory, subvolume) = (
        File::open(parent).unwrap(),
        File::open(parent.join(source)).unwrap(),
    );
    let arguments = arguments(i64::from(subvolume.as_raw_fd()), READ_ONLY, 56, name);
    let started = Instant::now();
    call(&directory, SNAPSHOT, &arguments);
    let took = milliseconds(started);
    destroy(parent, name);
    took
}

/// Bytes of data and metadata in use: `used` of every entry of `BTRFS_IOC_SPACE_INFO`.
pub fn used_bytes(pool: &Path) -> u64 {
    const SLOTS: usize = 16;
    // Two words of header, then flags, total and used for each kind of space.
    let mut arguments = [0u64; 2 + 3 * SLOTS];
    arguments[0] = SLOTS as u64;
    let directory = File::open(pool).unwrap();
    // SAFETY: the kernel fills at most the number of slots passed, which `arguments` has.
    let outcome = unsafe { libc::ioctl(directory.as_raw_fd(), SPACE_INFO, arguments.as_mut_ptr()) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    let entries = usize::try_from(arguments[1]).unwrap();
    arguments[2..]
        .chunks(3)
        .take(entries)
        .map(|entry| entry[2])
        .sum()
}
