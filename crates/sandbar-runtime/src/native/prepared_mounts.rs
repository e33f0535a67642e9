//! The session-independent mounts of a native box: its `/proc`, `/dev` and `/dev/shm`.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
    mount::{
        FsPickFlags, fsconfig_reconfigure, fsconfig_set_string, fspick, mount_bind, open_tree,
    },
    process::{chdir, fchdir},
};

use super::{
    mount_attributes::{Attributes, set_attributes},
    mount_calls::{CLONE_RECURSIVE, PLAIN_FILES, attach, attach_at, clone, file_system},
    namespaces,
    template::{COVER, DEVICES, EMPTY, Hidden, OWN, PROC, Template},
};

/// The kernel's boot id, below `/proc`. Covered by the box's own.
const BOOT_ID: &str = "sys/kernel/random/boot_id";
/// Returns a new random UUID on every read. The box's boot id is taken from it.
const RANDOM_UUID: &str = "sys/kernel/random/uuid";

/// Entries of `/proc` that show the size of the box, and the names of the files that cover them.
const MEMINFO: &str = "meminfo";
const STAT: &str = "stat";
const CPUINFO: &str = "cpuinfo";

/// Limit of process ids, below `/proc`.
const PID_MAX: &str = "sys/kernel/pid_max";
/// Process id that a pid namespace assigned last.
const NS_LAST_PID: &str = "sys/kernel/ns_last_pid";
/// Ids left below the kernel's limit when some are skipped.
const MIN_FREE_PIDS: u64 = 1024;

/// Size option of `/dev/shm` without a memory limit: half of the machine's memory. What it holds
/// also counts towards the session's memory limit.
const SHM_SIZE: (&str, &str) = ("size", "50%");

const READ_ONLY: Attributes = Attributes::READ_ONLY
    .union(Attributes::NO_SUID)
    .union(Attributes::NO_EXEC)
    .union(Attributes::NO_DEVICES);

/// Mounts of a native box that do not depend on its session.
#[derive(Debug)]
pub(super) struct PreparedMounts<'a> {
    pub(super) template: &'a Template,
    /// `/proc`, mounted in the template, with its covers.
    pub(super) proc: OwnedFd,
    /// Detached mount of `/dev`.
    pub(super) devices: OwnedFd,
    /// Detached tmpfs for `/dev/shm`.
    pub(super) shm: OwnedFd,
    /// Tmpfs with the files that cover entries of `/proc`.
    own: OwnedFd,
}

/// Creates them in the calling process's copy of the template. `/proc` shows the caller's pid
/// namespace.
pub(super) fn prepare_mounts(template: &Template) -> io::Result<PreparedMounts<'_>> {
    let proc = file_system("proc", &[], PLAIN_FILES)?;
    attach_at(&proc, PROC)?;
    cover(template, &proc, |hidden| !hidden.for_root)?;
    make_sysctls_read_only(&proc)?;
    let own = show_own(template, &proc)?;
    cover_static(template, &proc)?;
    // Recursive: device nodes of an unprivileged host are mounts.
    let devices = open_tree(CWD, DEVICES, CLONE_RECURSIVE)?;
    let shm = file_system("tmpfs", &[("mode", "1777"), SHM_SIZE], PLAIN_FILES)?;
    Ok(PreparedMounts {
        template,
        proc,
        devices,
        shm,
        own,
    })
}

impl PreparedMounts<'_> {
    /// Makes the caller's pid namespace assign ids after `last`, modulo the kernel's limit.
    pub(super) fn skip_pids(&self, last: u64) -> io::Result<()> {
        let mut text = [0; 32];
        let file = openat(
            &self.proc,
            PID_MAX,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let length = rustix::io::read(file, &mut text)?;
        let pid_max = str::from_utf8(&text[..length])
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        let pid_max = pid_max.ok_or(Errno::INVAL)?;
        let last = last
            .checked_rem(pid_max.saturating_sub(MIN_FREE_PIDS))
            .unwrap_or_default();
        // In the mount of the box the file is read-only.
        let own = file_system("proc", &[], PLAIN_FILES)?;
        let file = openat(
            &own,
            NS_LAST_PID,
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(file, last.to_string().as_bytes())?;
        Ok(())
    }

    /// Shows the box its own limits, and halves its memory for `/dev/shm`.
    pub(super) fn show_limits(&self, memory: Option<u64>, cpus: Option<u64>) -> io::Result<()> {
        let machine = &self.template.machine;
        if let Some(memory) = memory {
            write_own(&self.own, MEMINFO, machine.meminfo(Some(memory)).as_bytes())?;
            let picked = fspick(
                &self.shm,
                "",
                FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC,
            )?;
            fsconfig_set_string(picked.as_fd(), "size", (memory / 2).to_string())?;
            fsconfig_reconfigure(picked.as_fd())?;
        }
        if let Some(cpus) = cpus {
            let stat = machine.stat(Some(cpus), boot_time());
            write_own(&self.own, STAT, stat.as_bytes())?;
            write_own(&self.own, CPUINFO, machine.cpuinfo(cpus).as_bytes())?;
            cover_with_own(&self.own, CPUINFO, &self.proc, CPUINFO)?;
        }
        Ok(())
    }

    /// Covers the entries of `/proc` that only the host's root could use.
    pub(super) fn cover_root_entries(&self) -> io::Result<()> {
        cover(self.template, &self.proc, |hidden| hidden.for_root)
    }
}

/// Mounts a cover over each selected entry of `/proc`.
fn cover(
    template: &Template,
    proc: &OwnedFd,
    selected: impl Fn(&Hidden) -> bool,
) -> io::Result<()> {
    // Relative to `/proc`, so that each cover takes one system call.
    fchdir(proc)?;
    for hidden in template.hidden.iter().filter(|hidden| selected(hidden)) {
        let cover = if hidden.is_directory { EMPTY } else { COVER };
        mount_bind(format!("/{cover}"), hidden.name.as_os_str())?;
    }
    Ok(chdir("/")?)
}

/// Mounts the template's static files over entries of `/proc`.
fn cover_static(template: &Template, proc: &OwnedFd) -> io::Result<()> {
    fchdir(proc)?;
    for (entry, file) in &template.covered {
        mount_bind(file, *entry)?;
    }
    Ok(chdir("/")?)
}

/// Makes `/proc/sys` read-only.
fn make_sysctls_read_only(proc: &OwnedFd) -> io::Result<()> {
    let target = openat(proc, "sys", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let read_only = clone(proc.as_fd(), "sys")?;
    set_attributes(&read_only, READ_ONLY, None)?;
    attach(&read_only, &target)
}

/// Writes a file of the tmpfs with the box's own files.
fn write_own(own: &OwnedFd, name: &str, text: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = openat(own, name, flags, Mode::from_raw_mode(0o444))?;
    let mut rest = text;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = &rest[written..];
    }
    // The umask may have cleared bits.
    Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(0o444))?)
}

/// Covers an entry of `/proc` with a file of the tmpfs.
fn cover_with_own(own: &OwnedFd, name: &str, proc: &OwnedFd, entry: &str) -> io::Result<()> {
    let read_only = clone(own.as_fd(), name)?;
    set_attributes(&read_only, READ_ONLY, None)?;
    let target = openat(proc, entry, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    attach(&read_only, &target)
}

/// Covers entries of `/proc` with files of the box's own: its size, and its boot id. Programs that
/// compare the boot id treat state from before the box as left by an earlier boot.
fn show_own(template: &Template, proc: &OwnedFd) -> io::Result<OwnedFd> {
    let mut id = [0; 64];
    let uuid = openat(
        proc,
        RANDOM_UUID,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let length = rustix::io::read(uuid, &mut id)?;
    let own = file_system("tmpfs", &[("mode", "755"), ("size", "1m")], PLAIN_FILES)?;
    attach_at(&own, OWN)?;
    write_own(&own, "id", &id[..length])?;
    cover_with_own(&own, "id", proc, BOOT_ID)?;
    let machine = &template.machine;
    write_own(&own, MEMINFO, machine.meminfo(None).as_bytes())?;
    cover_with_own(&own, MEMINFO, proc, MEMINFO)?;
    write_own(&own, STAT, machine.stat(None, boot_time()).as_bytes())?;
    cover_with_own(&own, STAT, proc, STAT)?;
    Ok(own)
}

/// Returns when the caller's time namespace began, in seconds since the epoch.
fn boot_time() -> u64 {
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    now.as_secs().saturating_sub(namespaces::uptime())
}
