//! First process of a container, until it serves the host as init.
//!
//! It waits in the almost empty root of the container until the host has mounted a tree and orders
//! it to enter. Then the tree becomes its root, with `/proc` and `/dev`. Only its working directory
//! stays outside, where the named pipes of commands are.

#![expect(unsafe_code, reason = "`_exit` and `dup2` have no safe wrapper")]

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat},
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount},
};

use super::{
    bundle::{NO_TREE, SESSION, TRUST},
    dns_relay,
};
use crate::{
    TRUST_DIRECTORY,
    init::{InitSettings, InitSockets, serve},
    native::capabilities,
    protocol::{Event, Incoming, InitMode, Reader, Writer, send_frame},
    trust::{BUNDLE_FILE, CA_BUNDLE_PATHS},
};

/// Uid of init. Commands run as root without capabilities, so they can neither signal init nor open
/// its `/proc` entries. gVisor lacks the protection that Linux gives pid 1.
pub(crate) const INIT_USER: u32 = 65_533;

/// Order to enter the session's tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EnterOrder {
    pub(super) hostname: CString,
    /// Process limit of the session.
    pub(super) pids: Option<u64>,
    /// The host has written CA certificates to mount.
    pub(super) mounts_trust: bool,
    /// DNS queries to loopback are relayed to the host's egress gateway.
    pub(super) relays_dns: bool,
}

impl EnterOrder {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.text(&self.hostname);
        writer.optional(self.pids, Writer::number);
        writer.byte(u8::from(self.mounts_trust));
        writer.byte(u8::from(self.relays_dns));
        writer.finish()
    }

    fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(Self {
            hostname: reader.text()?,
            pids: reader.optional(Reader::number)?,
            mounts_trust: reader.byte()? != 0,
            relays_dns: reader.byte()? != 0,
        })
    }
}

/// Runs as the first process of a container.
pub(crate) fn run(sockets: InitSockets) -> ! {
    match wait_for_order(&sockets.orders) {
        Ok(Some(order)) => match enter(&order) {
            Ok(()) => serve(
                sockets,
                InitSettings {
                    mode: InitMode::Guest,
                    path_root: None,
                    cgroup_kill: None,
                    oom_score: None,
                    received: Incoming::default(),
                },
            ),
            Err((step, error)) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                let _ = send_frame(
                    sockets.events.as_fd(),
                    &Event::SetupFailed {
                        step: step.into(),
                        errno,
                    }
                    .encode(),
                    &[],
                );
                exit(1)
            }
        },
        // The host does not need the container any more.
        Ok(None) => exit(0),
        Err(_) => exit(1),
    }
}

fn exit(code: i32) -> ! {
    // SAFETY: exits without unwinding; there is nothing to clean up.
    unsafe { libc::_exit(code) }
}

/// Returns `None` if the host has closed the socket.
fn wait_for_order(socket: &OwnedFd) -> io::Result<Option<EnterOrder>> {
    let mut incoming = Incoming::default();
    loop {
        match incoming.receive(socket.as_fd()) {
            Ok(true) | Err(Errno::INTR) => {}
            Ok(false) | Err(Errno::CONNRESET) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        if let Some(body) = incoming.next_frame()? {
            return EnterOrder::decode(&body).map(Some);
        }
    }
}

type FailedStep = (&'static CStr, io::Error);

fn enter(order: &EnterOrder) -> Result<(), FailedStep> {
    let at = |step: &'static CStr| move |error: io::Error| (step, error);
    if order.relays_dns {
        // First, so that the relay does not count towards the process limit.
        dns_relay::start(INIT_USER).map_err(at(c"start the DNS relay"))?;
    }
    // During the start of the container, stderr goes to the host.
    redirect_stderr().map_err(at(c"redirect stderr"))?;
    if let Some(pids) = order.pids {
        limit_processes(pids).map_err(at(c"limit the number of processes"))?;
    }
    rustix::system::sethostname(order.hostname.as_bytes())
        .map_err(|errno| (c"set the host name", errno.into()))?;
    check_tree().map_err(at(c"find the session's tree"))?;
    assemble().map_err(at(c"assemble the root"))?;
    if order.mounts_trust {
        mount_trust().map_err(at(c"mount the CA certificates"))?;
    }
    // Init keeps its capabilities, but no program that it executes can have any.
    capabilities::drop_for_programs().map_err(at(c"drop capabilities"))?;
    capabilities::switch_user_keeping(INIT_USER).map_err(at(c"become the user of init"))
}

/// Limits the processes of the session by a cgroup of the gVisor kernel, raised by one for init.
/// Also sets RLIMIT_NPROC, because concurrent forks can exceed the cgroup limit by a few. A cgroup
/// of the host cannot be used: it would count the threads of the gVisor kernel, which dies if it
/// cannot start one.
fn limit_processes(max: u64) -> io::Result<()> {
    let limit = rustix::process::Rlimit {
        current: Some(max),
        maximum: Some(max),
    };
    rustix::process::setrlimit(rustix::process::Resource::Nproc, limit)?;
    let mount_point = "tmp";
    mount(
        "none",
        mount_point,
        "cgroup",
        MountFlags::empty(),
        Some(c"pids"),
    )?;
    let directory = openat(
        CWD,
        mount_point,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    unmount(mount_point, UnmountFlags::DETACH)?;
    mkdirat(&directory, "session", Mode::from_raw_mode(0o755))?;
    let write = |file: &str, text: &str| -> io::Result<()> {
        let file = openat(
            &directory,
            file,
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(file, text.as_bytes())?;
        Ok(())
    };
    write("session/pids.max", &max.saturating_add(1).to_string())?;
    write("session/cgroup.procs", "0")?;
    // Leaked on purpose: the hierarchy exists as long as a descriptor is open.
    let _ = directory.into_raw_fd();
    Ok(())
}

/// Points stderr to `/dev/null`, because commands could fill the host's memory through it.
fn redirect_stderr() -> io::Result<()> {
    let null = openat(
        CWD,
        "dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    // SAFETY: replaces a descriptor that no Rust object owns.
    if unsafe { libc::dup2(null.as_raw_fd(), 2) } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Fails with `ENOENT` if the tree is not mounted.
fn check_tree() -> io::Result<()> {
    match openat(CWD, NO_TREE, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        Ok(_) => Err(Errno::NOENT.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes the tree the root. Mount sources are relative to the working directory, which stays
/// outside the tree: symbolic links in the tree cannot redirect them.
fn assemble() -> io::Result<()> {
    // A mount of its own, so that `/proc/mounts` lists a root.
    mount_bind(SESSION, SESSION)?;
    rustix::process::chroot(SESSION)?;
    mount_point("/proc")?;
    mount_point("/dev")?;
    let kinds = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", kinds, None)?;
    mount_bind("dev", "/dev")?;
    mount_bind("dev/pts", "/dev/pts")?;
    directory("/tmp", 0o1777)
}

/// Mounts the CA certificates, and the bundle over each CA bundle of the tree.
fn mount_trust() -> io::Result<()> {
    directory(TRUST_DIRECTORY, 0o755)?;
    mount_bind(TRUST, TRUST_DIRECTORY)?;
    let bundle = format!("{TRUST}/{BUNDLE_FILE}");
    for path in CA_BUNDLE_PATHS.iter().filter(|path| is_regular_file(path)) {
        mount_bind(&bundle, format!("/{path}"))?;
    }
    Ok(())
}

/// Returns whether the tree has a regular file at this path, without symbolic links. Not racy: no
/// other process runs in the container yet.
fn is_regular_file(path: &str) -> bool {
    let ancestors = std::path::Path::new(path)
        .ancestors()
        .skip(1)
        .filter(|place| !place.as_os_str().is_empty());
    let kind_of = |place: &std::path::Path| {
        let about = rustix::fs::statat(
            CWD,
            std::path::Path::new("/").join(place),
            AtFlags::SYMLINK_NOFOLLOW,
        );
        about.map(|about| FileType::from_raw_mode(about.st_mode))
    };
    kind_of(path.as_ref()).is_ok_and(FileType::is_file)
        && ancestors
            .into_iter()
            .all(|place| kind_of(place).is_ok_and(FileType::is_dir))
}

/// Creates a directory to mount on, if needed. A symbolic link in its place is an error: a session
/// must not choose where init mounts.
fn mount_point(path: &str) -> io::Result<()> {
    directory(path, 0o755)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())?;
    Ok(())
}

fn directory(path: &str, mode: u32) -> io::Result<()> {
    match mkdirat(CWD, path, Mode::from_raw_mode(mode)) {
        // The umask may have cleared bits.
        Ok(()) => Ok(rustix::fs::chmod(path, Mode::from_raw_mode(mode))?),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enter_order_is_decoded_as_encoded() {
        for pids in [None, Some(7)] {
            let order = EnterOrder {
                hostname: c"a-session".to_owned(),
                pids,
                mounts_trust: pids.is_some(),
                relays_dns: pids.is_none(),
            };
            assert_eq!(EnterOrder::decode(&order.encode()).unwrap(), order);
        }
        assert!(EnterOrder::decode(b"torn").is_err());
    }
}
