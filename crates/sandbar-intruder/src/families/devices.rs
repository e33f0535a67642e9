//! Devices: creating nodes, opening existing ones, and calls on terminals.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt, symlink},
    },
    path::Path,
};

use crate::{
    attempt::{Attempt, Family},
    call::{call, open, text},
    facts::Facts,
    scratch::Scratch,
    verdict::{Outcome, Verdict, escaped, held, refused},
};

pub(crate) const FAMILY: Family = Family {
    name: "devices",
    attempts: &[
        Attempt::new(
            "node-memory",
            "creates a device node for the memory of the host (1:1); escaped when `mknod` succeeds",
            |_| make(libc::S_IFCHR, 1, 1),
        ),
        Attempt::new(
            "node-kernel-log",
            "creates a device node for the kernel log (1:11); escaped when `mknod` succeeds",
            |_| make(libc::S_IFCHR, 1, 11),
        ),
        Attempt::new(
            "node-null",
            "creates a device node for the null device (1:3); escaped when `mknod` succeeds",
            |_| make(libc::S_IFCHR, 1, 3),
        ),
        Attempt::new(
            "node-fuse",
            "creates a device node for FUSE (10:229); escaped when `mknod` succeeds",
            |_| make(libc::S_IFCHR, 10, 229),
        ),
        Attempt::new(
            "node-disk",
            "creates a device node for a SCSI disk (8:0); escaped when `mknod` succeeds",
            |_| make(libc::S_IFBLK, 8, 0),
        ),
        Attempt::new(
            "node-virtual-disk",
            "creates device nodes for virtual disks (253:0, 254:0); escaped when one `mknod` succeeds",
            |_| match make(libc::S_IFBLK, 253, 0)? {
                Verdict::Held(_) => make(libc::S_IFBLK, 254, 0),
                escape @ Verdict::Escaped(_) => Ok(escape),
            },
        ),
        Attempt::new(
            "node-loop",
            "creates a device node for a loop device (7:0); escaped when `mknod` succeeds",
            |_| make(libc::S_IFBLK, 7, 0),
        ),
        Attempt::new(
            "node-through-link",
            "creates a device node in `/dev` through a symbolic link to that directory; escaped when `mknod` succeeds",
            node_through_link,
        ),
        Attempt::new(
            "node-whiteout",
            "creates an overlayfs whiteout (0:0), which marks a file of a lower layer as deleted; escaped when `mknod` succeeds",
            whiteout,
        ),
        Attempt::new(
            "device-mem",
            "opens /dev/mem; escaped when a device opens",
            |_| open_device("/dev/mem"),
        ),
        Attempt::new(
            "device-port",
            "opens /dev/port; escaped when a device opens",
            |_| open_device("/dev/port"),
        ),
        Attempt::new(
            "device-kmsg",
            "opens /dev/kmsg; escaped when a device opens",
            |_| open_device("/dev/kmsg"),
        ),
        Attempt::new(
            "device-disks",
            "opens disks by their usual names; escaped when one opens",
            |_| {
                open_any(&[
                    "/dev/sda",
                    "/dev/vda",
                    "/dev/xvda",
                    "/dev/nvme0n1",
                    "/dev/dm-0",
                    "/dev/mmcblk0",
                    "/dev/ram0",
                ])
            },
        ),
        Attempt::new(
            "device-loop",
            "opens loop devices and their control device; escaped when one opens",
            |_| open_any(&["/dev/loop-control", "/dev/loop0"]),
        ),
        Attempt::new(
            "device-mapper",
            "opens the control devices of device mapper, btrfs and ZFS; escaped when one opens",
            |_| open_any(&["/dev/mapper/control", "/dev/btrfs-control", "/dev/zfs"]),
        ),
        Attempt::new(
            "device-fuse",
            "opens /dev/fuse; escaped when a device opens",
            |_| open_device("/dev/fuse"),
        ),
        Attempt::new(
            "device-kvm",
            "opens /dev/kvm; escaped when a device opens",
            |_| open_device("/dev/kvm"),
        ),
        Attempt::new(
            "device-tun",
            "opens /dev/net/tun; escaped when a device opens",
            |_| open_device("/dev/net/tun"),
        ),
        Attempt::new(
            "device-vhost",
            "opens /dev/vhost-net, /dev/vhost-vsock and /dev/vsock; escaped when one opens",
            |_| open_any(&["/dev/vhost-net", "/dev/vhost-vsock", "/dev/vsock"]),
        ),
        Attempt::new(
            "device-userfaultfd",
            "opens /dev/userfaultfd; escaped when a device opens",
            |_| open_device("/dev/userfaultfd"),
        ),
        Attempt::new(
            "device-input",
            "opens input devices; escaped when one opens",
            |_| open_any(&["/dev/uinput", "/dev/input/event0", "/dev/input/mice"]),
        ),
        Attempt::new(
            "device-registers",
            "opens the MSR, CPUID and latency devices of the processor; escaped when one opens",
            |_| open_any(&["/dev/cpu/0/msr", "/dev/cpu/0/cpuid", "/dev/cpu_dma_latency"]),
        ),
        Attempt::new(
            "device-console",
            "opens consoles of the host; escaped when one opens",
            |_| {
                open_any(&[
                    "/dev/console",
                    "/dev/tty0",
                    "/dev/tty1",
                    "/dev/ttyS0",
                    "/dev/vcs",
                    "/dev/hvc0",
                ])
            },
        ),
        Attempt::new(
            "terminal-of-another",
            "opens every terminal in /dev/pts except its own; escaped when one opens",
            terminals_of_others,
        ),
        Attempt::new(
            "terminal-push-input",
            "injects terminal input with TIOCSTI; escaped when the terminal accepts the call",
            |_| terminal_call(libc::TIOCSTI),
        ),
        Attempt::new(
            "terminal-console-calls",
            "pastes into the console with TIOCLINUX; escaped when the terminal accepts the call",
            |_| terminal_call(libc::TIOCLINUX),
        ),
    ],
};

/// Opens a device without blocking and without making it the controlling terminal.
const READ: i32 = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;

fn make_at(path: &Path, kind: u32, major: u32, minor: u32) -> io::Result<usize> {
    call!(
        SYS_mknodat,
        libc::AT_FDCWD,
        &text(path)?,
        kind | 0o600,
        libc::makedev(major, minor)
    )
}

fn make(kind: u32, major: u32, minor: u32) -> Outcome {
    let scratch = Scratch::new()?;
    let node = scratch.name("node");
    if let Err(error) = make_at(&node, kind, major, minor) {
        return held(error);
    }
    // A node that does not open is an escape as well: another host may use its layer and have the
    // device.
    match open(&node, READ) {
        Ok(_) => escaped(format!("created node {major}:{minor}, which opens")),
        Err(error) => escaped(format!(
            "created node {major}:{minor}, which does not open: {error}"
        )),
    }
}

fn node_through_link(_: &Facts) -> Outcome {
    let scratch = Scratch::new()?;
    let link = scratch.name("link");
    symlink("/dev", &link)?;
    // Registered after the link, so that drop removes it before the link.
    let node = scratch.name("link/intruder-node");
    refused(
        make_at(&node, libc::S_IFCHR, 1, 1),
        "created a node in /dev",
    )
}

fn whiteout(_: &Facts) -> Outcome {
    let scratch = Scratch::here()?;
    refused(
        make_at(&scratch.name("whiteout"), libc::S_IFCHR, 0, 0),
        "created a whiteout",
    )
}

fn open_device(path: &str) -> Outcome {
    open_any(&[path])
}

/// Opens each path for reading, without reading.
fn open_any(paths: &[&str]) -> Outcome {
    let mut last = String::new();
    for path in paths {
        match open(Path::new(path), READ) {
            Ok(device) => {
                let metadata = File::from(device).metadata()?;
                let kind = metadata.file_type();
                let null = kind.is_char_device() && metadata.rdev() == libc::makedev(1, 3);
                if (kind.is_char_device() || kind.is_block_device()) && !null {
                    return escaped(format!("opened {path}"));
                }
                last = format!("{path} is masked or not a device");
            }
            Err(error) => last = format!("{path}: {error}"),
        }
    }
    held(last)
}

fn terminals_of_others(_: &Facts) -> Outcome {
    let own: Vec<u64> = (0..3)
        .filter_map(|number| device_of(&format!("/proc/self/fd/{number}")))
        .collect();
    let entries = match fs::read_dir("/dev/pts") {
        Ok(entries) => entries,
        Err(error) => return held(error),
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.to_string_lossy().into_owned();
        let foreign =
            name != "/dev/pts/ptmx" && device_of(&name).is_none_or(|device| !own.contains(&device));
        if foreign && open(&path, READ).is_ok() {
            return escaped(format!("opened {name}"));
        }
    }
    held("no terminal except its own opens")
}

fn device_of(path: &str) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.rdev())
}

/// Makes a terminal ioctl with a null argument: `EFAULT` means that the permission check passed.
fn terminal_call(request: u64) -> Outcome {
    let mut terminals: Vec<(String, OwnedFd)> = Vec::new();
    for path in [
        "/dev/tty",
        "/dev/console",
        "/proc/self/fd/0",
        "/proc/self/fd/1",
        "/proc/self/fd/2",
    ] {
        if let Ok(terminal) = open(Path::new(path), READ) {
            terminals.push((path.to_owned(), terminal));
        }
    }
    let mut last = "no terminal found".to_owned();
    for (path, terminal) in &terminals {
        match call!(SYS_ioctl, terminal.as_raw_fd(), request, 0) {
            Err(error) if error.raw_os_error() != Some(libc::EFAULT) => {
                last = format!("{path}: {error}");
            }
            _ => return escaped(format!("{path} accepts the call")),
        }
    }
    held(last)
}
