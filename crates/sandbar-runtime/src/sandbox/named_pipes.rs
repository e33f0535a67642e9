//! Named pipes between the host and a gVisor container, which cannot receive descriptors.

use std::{
    collections::BTreeSet,
    ffi::CString,
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};
use sandbar_core::MutexExt as _;

/// Directory shared with the container, with a subdirectory of pipes for each command.
#[derive(Debug)]
pub(crate) struct PipeDirectory {
    on_host: PathBuf,
    /// Path of the directory for init.
    inside: String,
    /// Commands and connections whose pipes exist.
    live: Arc<Mutex<BTreeSet<u64>>>,
    /// Pipes of the next command.
    pub(super) prepared: Mutex<Option<NamedEnds>>,
}

impl PipeDirectory {
    pub(crate) fn new(on_host: PathBuf, inside: &str) -> Self {
        Self {
            on_host,
            inside: inside.to_owned(),
            live: Arc::default(),
            prepared: Mutex::default(),
        }
    }

    /// Creates the pipes of a command in a restored box.
    pub(crate) fn adopt(&self, number: u64) -> io::Result<AdoptedPipes> {
        // All of them, since the number may belong to a connection.
        let named = self.create(number, &NamedPipes::ALL)?;
        let holder = named.hold()?;
        let outputs = [
            named.open("out", OFlags::RDONLY)?,
            named.open("err", OFlags::RDONLY)?,
        ];
        Ok(AdoptedPipes {
            outputs,
            holder,
            named,
        })
    }

    /// Returns the commands and connections whose pipes exist.
    pub(super) fn live(&self) -> Vec<u64> {
        lock(&self.live).iter().copied().collect()
    }

    /// Opens every pipe for reading and writing, so that none reports end of file or a missing
    /// reader while the box is relocated.
    pub(super) fn hold(&self) -> io::Result<Vec<OwnedFd>> {
        let mut held = Vec::new();
        for number in self.live() {
            for name in NamedPipes::ALL {
                match open(
                    &self.on_host.join(number.to_string()).join(name),
                    OFlags::RDWR,
                ) {
                    Ok(end) => held.push(end),
                    // The command has ended since.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(held)
    }

    /// Creates named pipes in a subdirectory called `number`.
    pub(super) fn create(&self, number: u64, names: &[&str]) -> io::Result<NamedPipes> {
        let on_host = self.on_host.join(number.to_string());
        fs::create_dir(&on_host)?;
        lock(&self.live).insert(number);
        let inside = CString::new(format!("{}/{number}", self.inside))
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        let created = NamedPipes {
            number,
            on_host,
            inside,
            live: Arc::clone(&self.live),
        };
        for name in names {
            mknodat(
                CWD,
                created.on_host.join(name),
                FileType::Fifo,
                Mode::from_raw_mode(0o600),
                0,
            )?;
        }
        Ok(created)
    }
}

/// Named pipes of a command with the host ends open. Opened before init opens its ends, so that
/// neither side blocks.
#[derive(Debug)]
pub(super) struct NamedEnds {
    pub(super) named: NamedPipes,
    /// Read-write: a write-only open would fail, since there is no reader yet.
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl NamedEnds {
    pub(super) fn open(named: NamedPipes) -> io::Result<Self> {
        let stdin = named.open("in", OFlags::RDWR)?;
        let (stdout, stderr) = (
            named.open("out", OFlags::RDONLY)?,
            named.open("err", OFlags::RDONLY)?,
        );
        Ok(Self {
            named,
            stdin,
            stdout,
            stderr,
        })
    }
}

/// Named pipes in a directory of their own. Removed on drop.
#[derive(Debug)]
pub(crate) struct NamedPipes {
    pub(super) number: u64,
    on_host: PathBuf,
    pub(super) inside: CString,
    live: Arc<Mutex<BTreeSet<u64>>>,
}

impl NamedPipes {
    pub(super) const ALL: [&str; 4] = ["in", "out", "err", "live"];
    pub(super) const STREAMS: [&str; 3] = ["in", "out", "err"];

    pub(super) fn open(&self, name: &str, access: OFlags) -> io::Result<OwnedFd> {
        open(&self.on_host.join(name), access)
    }

    /// Gives the streams of a command to a host uid and gid.
    pub(super) fn give_to(&self, user: u32, group: u32) -> io::Result<()> {
        Self::STREAMS.iter().try_for_each(|name| {
            std::os::unix::fs::chown(self.on_host.join(name), Some(user), Some(group))
        })
    }

    /// Opens every pipe for reading and writing.
    fn hold(&self) -> io::Result<Vec<OwnedFd>> {
        Self::ALL
            .iter()
            .map(|name| self.open(name, OFlags::RDWR))
            .collect()
    }
}

fn open(path: &Path, access: OFlags) -> io::Result<OwnedFd> {
    Ok(openat(
        CWD,
        path,
        access | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Pipes of a command in a restored box.
#[derive(Debug)]
pub(crate) struct AdoptedPipes {
    pub(super) outputs: [OwnedFd; 2],
    /// Both ends of all pipes, until init has opened its own.
    pub(super) holder: Vec<OwnedFd>,
    pub(super) named: NamedPipes,
}

impl Drop for NamedPipes {
    fn drop(&mut self) {
        lock(&self.live).remove(&self.number);
        for name in Self::ALL {
            let _ = fs::remove_file(self.on_host.join(name));
        }
        let _ = fs::remove_dir(&self.on_host);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_unpoisoned()
}
