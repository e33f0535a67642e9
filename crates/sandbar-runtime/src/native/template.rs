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

use super::{machine::Machine, mount_calls::pivot_into, trust_store};

/// Directory of the template with files that cover those of `/proc`.
const FACTS: &str = "facts";
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
/// Mount point of the tmpfs with the files that cover entries of a box's `/proc`.
pub(super) const OWN: &str = "own";

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
const HIDDEN: [&str; 29] = [
    "acpi",
    "asound",
    "buddyinfo",
    "bus",
    "config.gz",
    "consoles",
    "diskstats",
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
    "mdstat",
    "misc",
    "modules",
    "partitions",
    "pressure",
    "schedstat",
    "scsi",
    "softirqs",
    "sysrq-trigger",
    "timer_list",
    "tty",
    "zoneinfo",
];

/// Entries of `/proc` that reveal what the machine does and that programs expect to have content,
/// with that of an idle machine. Entries of `/proc/sys` are covered after its mount is replaced.
const STATIC: [(&str, &str); 9] = [
    ("cmdline", "\n"),
    ("loadavg", "0.00 0.00 0.00 1/1 1\n"),
    (
        "swaps",
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
    ),
    (
        "vmstat",
        "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\noom_kill 0\n",
    ),
    ("sys/fs/dentry-state", "0\t0\t45\t0\t0\t0\n"),
    ("sys/fs/file-nr", "0\t0\t1048576\n"),
    ("sys/fs/inode-nr", "0\t0\n"),
    ("sys/fs/inode-state", "0\t0\t0\t0\t0\t0\t0\n"),
    ("sys/kernel/pty/nr", "0\n"),
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
    /// Entries of `/proc` with the paths of the files that cover them.
    pub(super) covered: Vec<(&'static str, String)>,
    pub(super) machine: Machine,
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
    for directory in [DEVICES, EMPTY, FACTS, ROOT, PROC, OWN, "proc"] {
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
    let covered = write_facts()?;
    mount_bind_recursive(FACTS, FACTS)?;
    for cover in [COVER, EMPTY, FACTS] {
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
        mount_remount(cover, flags, c"")?;
    }
    let template = Template {
        hidden: find_hidden()?,
        covered,
        machine: Machine::read()?,
    };
    pivot_into(".")?;
    Ok(template)
}

/// Writes the files of [`STATIC`] that this kernel has, and returns their paths.
fn write_facts() -> io::Result<Vec<(&'static str, String)>> {
    let mut written = Vec::new();
    for (name, text) in STATIC {
        if Path::new("proc").join(name).exists() {
            let place = format!("{FACTS}/{}", name.replace('/', "-"));
            fs::write(&place, text)?;
            // The umask may have cleared bits.
            chmod(&place, Mode::from_raw_mode(0o444))?;
            written.push((name, format!("/{place}")));
        }
    }
    Ok(written)
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
