//! The mounts of a box.
//!
//! The spawner lives in a mount namespace that holds nothing but a *template*: the few things every box needs. A box begins
//! as a copy of it, so that making one costs the same whatever the host has mounted, and nothing of the host was ever in
//! reach.

use std::{
    ffi::{CStr, OsString},
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::Path,
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, chmod, mkdirat, mknodat, openat, openat2, symlink},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
        UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, mount_bind, mount_bind_recursive,
        mount_change, mount_remount, move_mount, open_tree, unmount,
    },
    process::{chdir, fchdir, pivot_root},
};

use super::{
    mount_attributes::{Attributes, allow_set_user_id, set_attributes},
    trusted,
};
use crate::protocol::TrustOrder;

/// Directories of the template.
const DEVICES: &str = "dev";
const EMPTY: &str = "empty";
/// `/dev/null`, to cover files with.
const COVER: &str = "cover";
/// Where a box is put together.
const ROOT: &str = "root";
/// Where its `/proc` is, until it has a root.
const PROCESSES: &str = "processes";
/// Where a file system is that holds which start of a machine this box is.
const BOOT: &str = "boot";
/// Tells it, from `/proc`; and its neighbour that is another one at every look.
const BOOT_ID: &str = "sys/kernel/random/boot_id";
const FRESH_ID: &str = "sys/kernel/random/uuid";

/// The largest process id of the kernel, and the one a process namespace gave out last.
const LARGEST_PID: &str = "sys/kernel/pid_max";
const LAST_PID: &str = "sys/kernel/ns_last_pid";
/// Ids that are left below the largest when some are skipped.
const FEWEST_PIDS: u64 = 1024;

/// Devices every program may expect, with their numbers.
const NODES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

const LINKS: [(&str, &str); 6] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
];

/// What `/proc` tells everybody about the machine and no box needs. Files are covered by `/dev/null`, directories by
/// nothing.
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

/// A copy of a mount with everything mounted in it.
const WHOLE: OpenTreeFlags =
    OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC).union(OpenTreeFlags::AT_RECURSIVE);

/// Neither programs nor devices.
pub(super) const PLAIN_FILES: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV).union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Shared memory a box may use, within its memory limit.
const SHARED_MEMORY: &str = "size=50%";

/// Where the device nodes of a template come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    Made,
    /// An ordinary user cannot make nodes, but may show the host's.
    Bound,
}

/// Leaves the host's mount namespace, builds the template and makes it the root.
pub(super) fn enter_template() -> io::Result<Template> {
    super::namespaces::unshare(libc::CLONE_NEWNS)?;
    build_template(Nodes::Made)
}

/// What the template knows about this kernel's `/proc`.
#[derive(Debug)]
pub(super) struct Template {
    hidden: Vec<Hidden>,
}

/// Something in `/proc` that is covered.
#[derive(Debug)]
struct Hidden {
    name: OsString,
    is_directory: bool,
    /// Only the host's root has a use for it; covered in boxes whose root is the host's on disk.
    for_root: bool,
}

/// What is to be covered in this kernel's `/proc`.
fn find_hidden() -> io::Result<Vec<Hidden>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("proc")? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            // A process, which may be gone by now.
            continue;
        }
        let about = entry.metadata()?;
        if about.is_symlink() {
            continue;
        }
        let mode = about.permissions().mode();
        let listed = HIDDEN.iter().any(|hidden| name == *hidden);
        // Readable by root alone, or writable.
        if listed || mode & 0o004 == 0 || mode & 0o222 != 0 {
            found.push(Hidden { name, is_directory: about.is_dir(), for_root: !listed });
        }
    }
    Ok(found)
}

/// Builds a template in a file system of its own and makes that the root.
pub(super) fn build_template(nodes: Nodes) -> io::Result<Template> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let devices = openat(CWD, "/dev", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // Any directory will do: what it covers is not needed any more.
    mount("template", "/tmp", "tmpfs", MountFlags::NOSUID, Some(c"mode=755"))?;
    chdir("/tmp")?;
    for directory in [DEVICES, EMPTY, ROOT, PROCESSES, BOOT, "proc"] {
        fs::create_dir(directory)?;
    }
    mount("proc", "proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
    for directory in ["pts", "shm", trusted::DIRECTORY] {
        fs::create_dir(Path::new(DEVICES).join(directory))?;
    }
    for (name, target) in LINKS {
        symlink(target, Path::new(DEVICES).join(name))?;
    }
    for (name, major, minor) in NODES {
        let path = Path::new(DEVICES).join(name);
        match nodes {
            Nodes::Made => {
                let number = rustix::fs::makedev(major, minor);
                mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), number)?;
                // The mask of the caller may have taken bits away.
                chmod(&path, Mode::from_raw_mode(0o666))?;
            }
            Nodes::Bound => {
                fs::File::create(&path)?;
                mount_bind_recursive(format!("/proc/self/fd/{}/{name}", devices.as_raw_fd()), &path)?;
            }
        }
    }
    // Mounts of their own, so that covers need no further care when they are used.
    fs::File::create(COVER)?;
    mount_bind_recursive(format!("{DEVICES}/null"), COVER)?;
    mount_bind_recursive(EMPTY, EMPTY)?;
    for cover in [COVER, EMPTY] {
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
        mount_remount(cover, flags, c"")?;
    }
    let template = Template { hidden: find_hidden()? };
    pivot_into(".")?;
    Ok(template)
}

/// What of a walled box is the same whoever gets it.
#[derive(Debug)]
pub(super) struct Groundwork<'a> {
    template: &'a Template,
    /// Mounted in the template, with what covers it in every box.
    processes: OwnedFd,
    /// Detached mounts.
    devices: OwnedFd,
    memory: OwnedFd,
}

/// Makes it in the calling process's copy of the template. The processes shown are those of its process namespace.
pub(super) fn lay_groundwork(template: &Template) -> io::Result<Groundwork<'_>> {
    let processes = file_system("proc", &[], PLAIN_FILES)?;
    move_mount(&processes, "", CWD, PROCESSES, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    cover(template, &processes, |hidden| !hidden.for_root)?;
    protect_switches(&processes)?;
    show_boot(&processes)?;
    // With the nodes an ordinary user has mounted.
    let devices = open_tree(CWD, DEVICES, WHOLE)?;
    let size = SHARED_MEMORY.split_once('=').unwrap_or_default();
    let memory = file_system("tmpfs", &[("mode", "1777"), size], PLAIN_FILES)?;
    Ok(Groundwork { template, processes, devices, memory })
}

impl Groundwork<'_> {
    /// Has the process namespace of the caller go on after this process id. One beyond the largest id of the kernel counts
    /// from the beginning again.
    pub(super) fn skip_pids(&self, last: u64) -> io::Result<()> {
        let mut text = [0; 32];
        let largest = openat(&self.processes, LARGEST_PID, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let length = rustix::io::read(largest, &mut text)?;
        let largest = str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let largest = largest.ok_or(Errno::INVAL)?;
        let last = last.checked_rem(largest.saturating_sub(FEWEST_PIDS)).unwrap_or_default();
        // Not through the mount of the box, where it is read only.
        let own = file_system("proc", &[], PLAIN_FILES)?;
        let file = openat(&own, LAST_PID, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(file, last.to_string().as_bytes())?;
        Ok(())
    }
}

/// What makes a box one session's.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    /// What becomes `/`: a detached mount.
    pub(super) root: &'a OwnedFd,
    /// The user namespace of the box and who its root is on the host, where owners are translated.
    pub(super) owners: Option<(BorrowedFd<'a>, u32)>,
    pub(super) users: Users,
    pub(super) trust: Option<&'a TrustOrder>,
    /// Programs of the tree may set the user id: to users of the box, since there are no others in it.
    pub(super) set_user_id: bool,
}

/// Who there is in a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    Many,
    /// The caller, who is root in it.
    One,
}

/// The tree at a path with everything mounted in it, as a mount of its own that is nowhere yet.
pub(super) fn take(path: &CStr) -> io::Result<OwnedFd> {
    Ok(open_tree(CWD, path, WHOLE)?)
}

/// Puts a walled box together in the template, and makes it the root. The template is gone afterwards.
pub(super) fn assemble(groundwork: &Groundwork<'_>, parts: &Parts<'_>) -> io::Result<()> {
    let Groundwork { template, processes, devices, memory } = groundwork;
    if parts.set_user_id {
        // Of these copies of its mounts, which are nowhere else.
        allow_set_user_id(parts.root)?;
    }
    move_mount(parts.root, "", CWD, ROOT, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    let root = openat(CWD, ROOT, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let first = parts.owners.map(|(_, first)| first);
    let proc = mount_point(&root, "proc", first)?;
    let dev = mount_point(&root, "dev", first)?;
    make_directory(&root, "tmp", 0o1777, first)?;

    attach(processes, &proc)?;
    if first.is_none() {
        cover(template, processes, |hidden| hidden.for_root)?;
    }
    let shown = Attributes::READ_ONLY | Attributes::NO_SUID | Attributes::NO_EXEC;
    set_attributes(devices, shown, parts.owners.map(|(namespace, _)| namespace))?;
    attach(devices, &dev)?;
    let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let group = (first.unwrap_or(0) + 5).to_string();
    // All boxes draw on the machine's terminals, of which there are 4096.
    let mut options = vec![("ptmxmode", "0666"), ("mode", "0620"), ("max", "64")];
    if parts.users == Users::Many {
        options.push(("gid", &group));
    }
    let terminals = file_system("devpts", &options, no_programs)?;
    attach(&terminals, &below(devices, "pts")?)?;
    attach(memory, &below(devices, "shm")?)?;
    if let Some(trust) = parts.trust {
        trusted::show(trust, &root, &below(devices, trusted::DIRECTORY)?, first)?;
    }
    pivot_into(ROOT)
}

/// Puts a tree without walls together: its files, the machine's processes and devices.
pub(super) fn assemble_open(tree: &OwnedFd, devices: &OwnedFd) -> io::Result<()> {
    move_mount(tree, "", CWD, ROOT, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    let root = openat(CWD, ROOT, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let proc = mount_point(&root, "proc", None)?;
    let dev = mount_point(&root, "dev", None)?;
    attach(&file_system("proc", &[], PLAIN_FILES)?, &proc)?;
    attach(devices, &dev)?;
    pivot_into(ROOT)
}

/// Covers what `/proc` tells about the machine. Nobody is there to see it yet.
fn cover(template: &Template, processes: &OwnedFd, wanted: impl Fn(&Hidden) -> bool) -> io::Result<()> {
    // From inside, so that every cover is one system call.
    fchdir(processes)?;
    for hidden in template.hidden.iter().filter(|hidden| wanted(hidden)) {
        let cover = if hidden.is_directory { EMPTY } else { COVER };
        mount_bind(format!("/{cover}"), hidden.name.as_os_str())?;
    }
    Ok(chdir("/")?)
}

/// Makes the switches of the kernel read-only.
fn protect_switches(processes: &OwnedFd) -> io::Result<()> {
    let switches = openat(processes, "sys", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let shown = clone(processes.as_fd(), "sys")?;
    set_attributes(
        &shown,
        Attributes::READ_ONLY | Attributes::NO_SUID | Attributes::NO_EXEC | Attributes::NO_DEVICES,
        None,
    )?;
    attach(&shown, &switches)
}

/// A box is a machine that has just started: programs that ask find that everything from before is gone.
fn show_boot(processes: &OwnedFd) -> io::Result<()> {
    let mut id = [0; 64];
    let fresh = openat(processes, FRESH_ID, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::io::read(fresh, &mut id)?;
    let place = file_system("tmpfs", &[("mode", "755"), ("size", "4k")], PLAIN_FILES)?;
    move_mount(&place, "", CWD, BOOT, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&place, "id", flags, Mode::from_raw_mode(0o444))?;
    rustix::io::write(&file, &id[..length])?;
    // The mask of the process may have taken bits away.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o444))?;
    drop(file);
    let shown = clone(place.as_fd(), "id")?;
    set_attributes(
        &shown,
        Attributes::READ_ONLY | Attributes::NO_SUID | Attributes::NO_EXEC | Attributes::NO_DEVICES,
        None,
    )?;
    attach(&shown, &openat(processes, BOOT_ID, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes `new_root` the root and lets go of everything else.
fn pivot_into(new_root: &str) -> io::Result<()> {
    chdir(new_root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

/// Opens a directory of the session to mount on, making it when it is missing. Links are not followed: a session must
/// not choose where the host mounts.
fn mount_point(root: &OwnedFd, name: &str, first_owner: Option<u32>) -> io::Result<OwnedFd> {
    make_directory(root, name, 0o755, first_owner)?;
    below(root, name)
}

fn below(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(directory, name, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH)?)
}

/// Makes a directory that belongs to the root of the box. On translated mounts the kernel refuses files of owners that
/// have no counterpart, such as the host's own root.
fn make_directory(root: &OwnedFd, name: &str, mode: u32, first_owner: Option<u32>) -> io::Result<()> {
    match rustix::fs::statat(root, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let owner = FileSystemOwner::take(first_owner);
    mkdirat(root, name, Mode::from_raw_mode(mode))?;
    // The mask of the process may have taken bits away.
    rustix::fs::chmodat(root, name, Mode::from_raw_mode(mode), rustix::fs::AtFlags::empty())?;
    drop(owner);
    Ok(())
}

/// Makes files as another owner for a while.
pub(super) struct FileSystemOwner {
    taken: bool,
}

impl FileSystemOwner {
    pub(super) fn take(owner: Option<u32>) -> Self {
        if let Some(owner) = owner {
            Self::set(owner);
        }
        Self { taken: owner.is_some() }
    }

    fn set(owner: u32) {
        // SAFETY: changes who this thread is to file systems, nothing else.
        unsafe {
            libc::setfsgid(owner);
            libc::setfsuid(owner);
        }
    }
}

impl Drop for FileSystemOwner {
    fn drop(&mut self) {
        if self.taken {
            Self::set(0);
        }
    }
}

pub(super) fn file_system(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(context.as_fd(), *name, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

pub(super) fn clone(directory: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    Ok(open_tree(directory, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)?)
}

pub(super) fn attach(mount: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", target, "", flags)?)
}
