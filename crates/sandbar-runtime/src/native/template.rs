//! The template: the mount namespace that boxes are forked from.
//!
//! The spawner lives in a mount namespace that holds only what every box needs. A box starts with a
//! copy of it. So the cost of a box does not depend on the host's mounts, and no mount of the host
//! is ever in its reach.

use std::{
    ffi::OsString,
    fs, io,
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    path::Path,
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, chmod, mknodat, openat, symlink},
    mount::{
        MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change, mount_remount,
    },
    process::chdir,
};

use super::{mount_calls::pivot_into, trust_store};

/// Directory of the template with the device nodes.
pub(super) const DEVICES: &str = "dev";
/// Empty directory, mounted over directories of `/proc`.
pub(super) const EMPTY: &str = "empty";
/// Bind mount of `/dev/null`, mounted over files of `/proc`.
pub(super) const COVER: &str = "cover";
/// Mount point of a box's root while it is assembled.
pub(super) const ROOT: &str = "root";
/// Mount point of a box's `/proc` until its root is assembled.
pub(super) const PROC: &str = "processes";
/// Mount point of the tmpfs that holds a box's own boot id.
pub(super) const BOOT: &str = "boot";

/// Device nodes of every box, with their major and minor numbers.
const NODES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

const LINKS: [(&str, &str); 6] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
];

/// Entries of `/proc` that reveal or control the machine although every user may read them. Files
/// are covered with `/dev/null`, directories with an empty directory.
const HIDDEN: [&str; 17] = [
    "acpi",
    "asound",
    "bus",
    "driver",
    "fs",
    "interrupts",
    "iomem",
    "ioports",
    "irq",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "scsi",
    "sysrq-trigger",
    "timer_list",
    "tty",
];

/// Source of the template's device nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    Created,
    /// Bind mounts of the host's nodes, for an unprivileged host, which cannot create any.
    Bound,
}

/// Mount namespace that boxes are forked from, and the entries of this kernel's `/proc` to hide.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) hidden: Vec<Hidden>,
}

/// An entry of `/proc` that boxes do not see.
#[derive(Debug)]
pub(super) struct Hidden {
    pub(super) name: OsString,
    pub(super) is_directory: bool,
    /// Only uid 0 of the host could use it. Covered in boxes whose root is that uid on disk.
    pub(super) for_root: bool,
}

/// Leaves the host's mount namespace, builds the template and makes it the root.
pub(super) fn enter_template() -> io::Result<Template> {
    super::namespaces::unshare(libc::CLONE_NEWNS)?;
    build_template(Nodes::Created)
}

/// Builds the template in a tmpfs and makes that the root.
pub(super) fn build_template(nodes: Nodes) -> io::Result<Template> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    let devices = openat(
        CWD,
        "/dev",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    // Any existing directory works as mount point: its content is not needed any more.
    mount(
        "template",
        "/tmp",
        "tmpfs",
        MountFlags::NOSUID,
        Some(c"mode=755"),
    )?;
    chdir("/tmp")?;
    for directory in [DEVICES, EMPTY, ROOT, PROC, BOOT, "proc"] {
        fs::create_dir(directory)?;
    }
    mount(
        "proc",
        "proc",
        "proc",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
        None,
    )?;
    for directory in ["pts", "shm", trust_store::DIRECTORY] {
        fs::create_dir(Path::new(DEVICES).join(directory))?;
    }
    for (name, target) in LINKS {
        symlink(target, Path::new(DEVICES).join(name))?;
    }
    for (name, major, minor) in NODES {
        let path = Path::new(DEVICES).join(name);
        match nodes {
            Nodes::Created => {
                let number = rustix::fs::makedev(major, minor);
                mknodat(
                    CWD,
                    &path,
                    FileType::CharacterDevice,
                    Mode::from_raw_mode(0o666),
                    number,
                )?;
                // The umask may have cleared bits.
                chmod(&path, Mode::from_raw_mode(0o666))?;
            }
            Nodes::Bound => {
                fs::File::create(&path)?;
                mount_bind_recursive(
                    format!("/proc/self/fd/{}/{name}", devices.as_raw_fd()),
                    &path,
                )?;
            }
        }
    }
    // Read-only mounts of their own: bind mounts of them inherit the flags.
    fs::File::create(COVER)?;
    mount_bind_recursive(format!("{DEVICES}/null"), COVER)?;
    mount_bind_recursive(EMPTY, EMPTY)?;
    for cover in [COVER, EMPTY] {
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
        mount_remount(cover, flags, c"")?;
    }
    let template = Template {
        hidden: find_hidden()?,
    };
    pivot_into(".")?;
    Ok(template)
}

/// Lists the entries of this kernel's `/proc` that boxes must not see.
fn find_hidden() -> io::Result<Vec<Hidden>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("proc")? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            // A process, which may have exited since.
            continue;
        }
        let metadata = entry.metadata()?;
        if metadata.is_symlink() {
            continue;
        }
        let mode = metadata.permissions().mode();
        let listed = HIDDEN.iter().any(|hidden| name == *hidden);
        // Not readable by other users, or writable.
        if listed || mode & 0o004 == 0 || mode & 0o222 != 0 {
            found.push(Hidden {
                name,
                is_directory: metadata.is_dir(),
                for_root: !listed,
            });
        }
    }
    Ok(found)
}
