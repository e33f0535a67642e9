//! Inside a container: from its start to the init of a session.
//!
//! The process waits in the almost empty root the container began with until the host has put a tree there and tells it
//! to enter. Afterwards the tree is its root, with a `/proc` and a `/dev`; only its working directory stays outside, where
//! the named pipes of commands are.

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
    name_relay,
};
use crate::{
    TRUST_DIRECTORY,
    init::{InitSettings, InitSockets, serve},
    native::capabilities,
    protocol::{Event, Incoming, InitMode, Reader, Writer, send_frame},
    runtime::{TREE_BUNDLES, TRUST_BUNDLE},
};

/// Who init is, so that commands, which are root without its rights, can neither signal it nor look at its descriptors:
/// what protects the first process elsewhere, gVisor does not have.
pub(crate) const INIT_USER: u32 = 65_533;

/// What the host tells when the tree is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EnterOrder {
    pub(super) hostname: CString,
    /// How many processes the session may have at once.
    pub(super) pids: Option<u64>,
    /// Whether the host has left certificates to show.
    pub(super) shows_trust: bool,
    /// Whether there is a gate that answers questions for names.
    pub(super) asks_the_gate: bool,
}

impl EnterOrder {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.text(&self.hostname);
        writer.optional(self.pids, Writer::number);
        writer.byte(u8::from(self.shows_trust));
        writer.byte(u8::from(self.asks_the_gate));
        writer.finish()
    }

    fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(Self {
            hostname: reader.text()?,
            pids: reader.optional(Reader::number)?,
            shows_trust: reader.byte()? != 0,
            asks_the_gate: reader.byte()? != 0,
        })
    }
}

/// The life of the first process of a container.
pub(crate) fn run(sockets: InitSockets) -> ! {
    match wait_for_order(&sockets.orders) {
        Ok(Some(order)) => match enter(&order) {
            Ok(()) => serve(
                sockets,
                InitSettings { mode: InitMode::Guest, below: None, kill_switch: None, arrived: Incoming::default() },
            ),
            Err((step, error)) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                let _ = send_frame(sockets.events.as_fd(), &Event::Broken { step: step.into(), errno }.encode(), &[]);
                leave(1)
            }
        },
        // The host needs us no more.
        Ok(None) => leave(0),
        Err(_) => leave(1),
    }
}

fn leave(code: i32) -> ! {
    // SAFETY: leaves without unwinding; there is nothing to clean up in here.
    unsafe { libc::_exit(code) }
}

/// `None` when the host is gone.
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

type Step = (&'static CStr, io::Error);

fn enter(order: &EnterOrder) -> Result<(), Step> {
    let at = |step: &'static CStr| move |error: io::Error| (step, error);
    if order.asks_the_gate {
        // First, so that it is none of those that are limited.
        name_relay::start(INIT_USER).map_err(at(c"pass names on"))?;
    }
    // What was said while the container started went to the host.
    redirect_errors().map_err(at(c"let go of the host's log"))?;
    if let Some(pids) = order.pids {
        limit_processes(pids).map_err(at(c"limit the number of processes"))?;
    }
    rustix::system::sethostname(order.hostname.as_bytes()).map_err(|errno| (c"set the host name", errno.into()))?;
    see_the_tree().map_err(at(c"see the tree of the session"))?;
    assemble().map_err(at(c"put the file system together"))?;
    if order.shows_trust {
        show_trust().map_err(at(c"show the certificates"))?;
    }
    // Once for all commands: init keeps what it needs, and nothing it executes gets any of it.
    capabilities::drop_for_programs().map_err(at(c"give up capabilities"))?;
    capabilities::keep_as(INIT_USER).map_err(at(c"become the user of init"))
}

/// A cgroup of the container's own kernel around everything in it, in which init is one process more than was asked for;
/// and a limit of each user, since the group lets a few too many through when they come at once. The host's cgroups cannot
/// do it: there, threads of the kernel in user space count, and it dies when it cannot have one.
fn limit_processes(most: u64) -> io::Result<()> {
    let limit = rustix::process::Rlimit { current: Some(most), maximum: Some(most) };
    rustix::process::setrlimit(rustix::process::Resource::Nproc, limit)?;
    let place = "tmp";
    mount("none", place, "cgroup", MountFlags::empty(), Some(c"pids"))?;
    let directory = openat(CWD, place, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    unmount(place, UnmountFlags::DETACH)?;
    mkdirat(&directory, "session", Mode::from_raw_mode(0o755))?;
    let write = |file: &str, text: &str| -> io::Result<()> {
        let file = openat(&directory, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(file, text.as_bytes())?;
        Ok(())
    };
    write("session/pids.max", &most.saturating_add(1).to_string())?;
    write("session/cgroup.procs", "0")?;
    // The hierarchy lives as long as somebody holds it.
    let _ = directory.into_raw_fd();
    Ok(())
}

/// Commands could write to it without end.
fn redirect_errors() -> io::Result<()> {
    let null = openat(CWD, "dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: replaces a descriptor nothing in here owns.
    if unsafe { libc::dup2(null.as_raw_fd(), 2) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn see_the_tree() -> io::Result<()> {
    match openat(CWD, NO_TREE, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        Ok(_) => Err(Errno::NOENT.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes the tree the root. Whatever is mounted comes from the working directory, which stays outside, so that links in the
/// tree lead nowhere but into the tree.
fn assemble() -> io::Result<()> {
    // A mount of its own, so that programs find it in `/proc/mounts`.
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

/// Shows the certificates the host has left, also in the place of what the tree trusts.
fn show_trust() -> io::Result<()> {
    directory(TRUST_DIRECTORY, 0o755)?;
    mount_bind(TRUST, TRUST_DIRECTORY)?;
    let bundle = format!("{TRUST}/{TRUST_BUNDLE}");
    for path in TREE_BUNDLES.iter().filter(|path| is_regular_file(path)) {
        mount_bind(&bundle, format!("/{path}"))?;
    }
    Ok(())
}

/// Whether there is a file at this path of the tree that is reached without links. Nobody else is there yet who could
/// change it meanwhile.
fn is_regular_file(path: &str) -> bool {
    let ancestors = std::path::Path::new(path).ancestors().skip(1).filter(|place| !place.as_os_str().is_empty());
    let kind_of = |place: &std::path::Path| {
        let about = rustix::fs::statat(CWD, std::path::Path::new("/").join(place), AtFlags::SYMLINK_NOFOLLOW);
        about.map(|about| FileType::from_raw_mode(about.st_mode))
    };
    kind_of(path.as_ref()).is_ok_and(FileType::is_file)
        && ancestors.into_iter().all(|place| kind_of(place).is_ok_and(FileType::is_dir))
}

/// Makes a directory to mount on unless it is there. A link in its place is an error: a session must not choose where we
/// mount.
fn mount_point(path: &str) -> io::Result<()> {
    directory(path, 0o755)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())?;
    Ok(())
}

fn directory(path: &str, mode: u32) -> io::Result<()> {
    match mkdirat(CWD, path, Mode::from_raw_mode(mode)) {
        // The mask of the process may have taken bits away.
        Ok(()) => Ok(rustix::fs::chmod(path, Mode::from_raw_mode(mode))?),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_sent() {
        for pids in [None, Some(7)] {
            let order = EnterOrder {
                hostname: c"a-session".to_owned(),
                pids,
                shows_trust: pids.is_some(),
                asks_the_gate: pids.is_none(),
            };
            assert_eq!(EnterOrder::decode(&order.encode()).unwrap(), order);
        }
        assert!(EnterOrder::decode(b"torn").is_err());
    }
}
