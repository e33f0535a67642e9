//! Devices: making nodes for them, opening those there are, and what terminals can be made to do.

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
        Attempt::new("node-memory", "makes a node for the memory of the host (1:1); escaped when it is made", |_| {
            make(libc::S_IFCHR, 1, 1)
        }),
        Attempt::new("node-kernel-log", "makes a node for the kernel log (1:11); escaped when it is made", |_| {
            make(libc::S_IFCHR, 1, 11)
        }),
        Attempt::new("node-null", "makes a node for the null device (1:3); escaped when it is made", |_| {
            make(libc::S_IFCHR, 1, 3)
        }),
        Attempt::new("node-fuse", "makes a node for FUSE (10:229); escaped when it is made", |_| {
            make(libc::S_IFCHR, 10, 229)
        }),
        Attempt::new("node-disk", "makes a node for a SCSI disk (8:0); escaped when it is made", |_| {
            make(libc::S_IFBLK, 8, 0)
        }),
        Attempt::new(
            "node-virtual-disk",
            "makes nodes for virtual disks (253:0, 254:0); escaped when one is made",
            |_| match make(libc::S_IFBLK, 253, 0)? {
                Verdict::Held(_) => make(libc::S_IFBLK, 254, 0),
                escape @ Verdict::Escaped(_) => Ok(escape),
            },
        ),
        Attempt::new("node-loop", "makes a node for a loop device (7:0); escaped when it is made", |_| {
            make(libc::S_IFBLK, 7, 0)
        }),
        Attempt::new(
            "node-through-link",
            "makes a node in `/dev` through a link to that directory; escaped when it is made",
            node_through_link,
        ),
        Attempt::new(
            "node-whiteout",
            "makes a whiteout, which an overlay takes for a deletion; escaped when it is made",
            whiteout,
        ),
        Attempt::new("device-mem", "opens /dev/mem; escaped when it opens", |_| open_device("/dev/mem")),
        Attempt::new("device-port", "opens /dev/port; escaped when it opens", |_| open_device("/dev/port")),
        Attempt::new("device-kmsg", "opens /dev/kmsg; escaped when it opens", |_| open_device("/dev/kmsg")),
        Attempt::new("device-disks", "opens disks by their usual names; escaped when one opens", |_| {
            open_any(&["/dev/sda", "/dev/vda", "/dev/xvda", "/dev/nvme0n1", "/dev/dm-0", "/dev/mmcblk0", "/dev/ram0"])
        }),
        Attempt::new("device-loop", "opens loop devices and their control; escaped when one opens", |_| {
            open_any(&["/dev/loop-control", "/dev/loop0"])
        }),
        Attempt::new("device-mapper", "opens the device mapper and btrfs controls; escaped when one opens", |_| {
            open_any(&["/dev/mapper/control", "/dev/btrfs-control", "/dev/zfs"])
        }),
        Attempt::new("device-fuse", "opens /dev/fuse; escaped when it opens", |_| open_device("/dev/fuse")),
        Attempt::new("device-kvm", "opens /dev/kvm; escaped when it opens", |_| open_device("/dev/kvm")),
        Attempt::new("device-tun", "opens /dev/net/tun; escaped when it opens", |_| open_device("/dev/net/tun")),
        Attempt::new("device-vhost", "opens /dev/vhost-net and its kin; escaped when one opens", |_| {
            open_any(&["/dev/vhost-net", "/dev/vhost-vsock", "/dev/vsock"])
        }),
        Attempt::new("device-userfaultfd", "opens /dev/userfaultfd; escaped when it opens", |_| {
            open_device("/dev/userfaultfd")
        }),
        Attempt::new("device-input", "opens input devices; escaped when one opens", |_| {
            open_any(&["/dev/uinput", "/dev/input/event0", "/dev/input/mice"])
        }),
        Attempt::new("device-registers", "opens the registers of the processor; escaped when one opens", |_| {
            open_any(&["/dev/cpu/0/msr", "/dev/cpu/0/cpuid", "/dev/cpu_dma_latency"])
        }),
        Attempt::new("device-console", "opens consoles of the host; escaped when one opens", |_| {
            open_any(&["/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/vcs", "/dev/hvc0"])
        }),
        Attempt::new(
            "terminal-of-another",
            "opens every terminal in /dev/pts that is not its own; escaped when one opens",
            terminals_of_others,
        ),
        Attempt::new(
            "terminal-push-input",
            "pushes input into its terminal with TIOCSTI; escaped when the terminal takes it",
            |_| terminal_call(libc::TIOCSTI),
        ),
        Attempt::new(
            "terminal-console-calls",
            "pastes into the console with TIOCLINUX; escaped when the console takes it",
            |_| terminal_call(libc::TIOCLINUX),
        ),
    ],
};

/// To look at a device without waiting for it or taking it for a terminal.
const READ: i32 = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;

fn make_at(path: &Path, kind: u32, major: u32, minor: u32) -> io::Result<usize> {
    call!(SYS_mknodat, libc::AT_FDCWD, &text(path)?, kind | 0o600, libc::makedev(major, minor))
}

fn make(kind: u32, major: u32, minor: u32) -> Outcome {
    let scratch = Scratch::new()?;
    let node = scratch.name("node");
    if let Err(error) = make_at(&node, kind, major, minor) {
        return held(error);
    }
    // Opened and not read. Without the device a node is of no use here, but its layer may be used elsewhere.
    match open(&node, READ) {
        Ok(_) => escaped(format!("made a node for {major}:{minor}, and it opens")),
        Err(error) => escaped(format!("made a node for {major}:{minor}, and it does not open: {error}")),
    }
}

fn node_through_link(_: &Facts) -> Outcome {
    let scratch = Scratch::new()?;
    let link = scratch.name("link");
    symlink("/dev", &link)?;
    // Removed before the link is: names are removed last made, first.
    let node = scratch.name("link/intruder-node");
    refused(make_at(&node, libc::S_IFCHR, 1, 1), "made a node in /dev")
}

fn whiteout(_: &Facts) -> Outcome {
    let scratch = Scratch::here()?;
    refused(make_at(&scratch.name("whiteout"), libc::S_IFCHR, 0, 0), "made a whiteout")
}

fn open_device(path: &str) -> Outcome {
    open_any(&[path])
}

/// Opens for reading and reads nothing.
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
                last = format!("{path} is masked or no device");
            }
            Err(error) => last = format!("{path}: {error}"),
        }
    }
    held(last)
}

fn terminals_of_others(_: &Facts) -> Outcome {
    let own: Vec<u64> = (0..3).filter_map(|number| device_of(&format!("/proc/self/fd/{number}"))).collect();
    let entries = match fs::read_dir("/dev/pts") {
        Ok(entries) => entries,
        Err(error) => return held(error),
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.to_string_lossy().into_owned();
        let foreign = name != "/dev/pts/ptmx" && device_of(&name).is_none_or(|device| !own.contains(&device));
        if foreign && open(&path, READ).is_ok() {
            return escaped(format!("opened {name}"));
        }
    }
    held("there is no terminal but its own")
}

fn device_of(path: &str) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.rdev())
}

/// Without an argument to read, the call fails with `EFAULT` once the terminal has agreed to it.
fn terminal_call(request: u64) -> Outcome {
    let mut terminals: Vec<(String, OwnedFd)> = Vec::new();
    for path in ["/dev/tty", "/dev/console", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"] {
        if let Ok(terminal) = open(Path::new(path), READ) {
            terminals.push((path.to_owned(), terminal));
        }
    }
    let mut last = "there is no terminal".to_owned();
    for (path, terminal) in &terminals {
        match call!(SYS_ioctl, terminal.as_raw_fd(), request, 0) {
            Err(error) if error.raw_os_error() != Some(libc::EFAULT) => last = format!("{path}: {error}"),
            _ => return escaped(format!("{path} would take input")),
        }
    }
    held(last)
}
