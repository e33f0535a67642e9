//! The pipes between a command and the host.

use std::{
    collections::BTreeSet,
    ffi::CString,
    fs::{self, File},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::{
    fs::{CWD, FileType, Gid, Mode, OFlags, Uid, mknodat, openat},
    pipe::{PipeFlags, pipe_with},
};

use crate::{
    Dialed, StdinMode,
    dialed::Lifelines,
    protocol::{PrepareOrder, Streams},
};

/// How streams reach the commands of a box.
#[derive(Debug)]
pub(crate) enum CommandStreams {
    /// As descriptors.
    Passed,
    /// As named pipes.
    Named(PipeDirectory),
}

impl CommandStreams {
    /// The pipes of a command, and its number; `next` says which one is free.
    pub(super) fn make(
        &self,
        stdin: StdinMode,
        owner: Option<(u32, u32)>,
        next: impl FnOnce() -> u64,
    ) -> io::Result<(u64, Pipes)> {
        match self {
            Self::Passed => Ok((next(), Pipes::passed(stdin, owner)?)),
            Self::Named(directory) => {
                let prepared = lock(&directory.prepared).take();
                let ends = prepared.map_or_else(|| NamedEnds::open(directory.make(next())?), Ok)?;
                if let Some((user, group)) = owner {
                    ends.named.give_to(user, group)?;
                }
                Ok((ends.named.number, Pipes::named(stdin, ends)))
            }
        }
    }

    /// The pipes of a connection into the box; `number` is a free one.
    pub(super) fn for_connection(&self, number: u64) -> io::Result<ConnectionPipes> {
        match self {
            Self::Passed => ConnectionPipes::passed(),
            Self::Named(directory) => ConnectionPipes::named(directory.make_some(number, &NamedPipes::NAMES)?),
        }
    }

    /// Makes the pipes of the next command; returns what to tell init. `None` when there is nothing to prepare.
    pub(super) fn prepare(&self, next: impl FnOnce() -> u64) -> io::Result<Option<PrepareOrder>> {
        let Self::Named(directory) = self else { return Ok(None) };
        let mut prepared = lock(&directory.prepared);
        if prepared.is_some() {
            return Ok(None);
        }
        let ends = NamedEnds::open(directory.make(next())?)?;
        let order = PrepareOrder { number: ends.named.number, pipes: ends.named.inside.clone() };
        *prepared = Some(ends);
        Ok(Some(order))
    }

    /// See [`PipeDirectory::hold`].
    pub(super) fn hold(&self) -> io::Result<Vec<OwnedFd>> {
        match self {
            Self::Passed => Ok(Vec::new()),
            Self::Named(directory) => directory.hold(),
        }
    }

    /// Commands whose pipes have names.
    pub(super) fn named(&self) -> Vec<u64> {
        match self {
            Self::Passed => Vec::new(),
            Self::Named(directory) => directory.live(),
        }
    }
}

/// The pipes of a command: the ends it gets, and those we keep.
pub(super) struct Pipes {
    theirs: Vec<OwnedFd>,
    ours: OurEnds,
    /// An end without which init could not open its own.
    until_started: Option<OwnedFd>,
}

/// The ends the host keeps.
pub(super) struct OurEnds {
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// Kept as long as the command has its ends.
    pub(super) named: Option<NamedPipes>,
}

impl Pipes {
    /// `owner` is the user and the group the streams belong to.
    fn passed(stdin: StdinMode, owner: Option<(u32, u32)>) -> io::Result<Self> {
        let pipe = || {
            let ends = pipe_with(PipeFlags::CLOEXEC)?;
            if let Some((user, group)) = owner {
                rustix::fs::fchown(&ends.0, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
            }
            io::Result::Ok(ends)
        };
        let (stdin_reader, stdin_writer) = match stdin {
            StdinMode::Null => (OwnedFd::from(File::open("/dev/null")?), None),
            StdinMode::Piped => pipe().map(|(reader, writer)| (reader, Some(writer)))?,
        };
        let (stdout, stdout_writer) = pipe()?;
        let (stderr, stderr_writer) = pipe()?;
        Ok(Self {
            theirs: vec![stdin_reader, stdout_writer, stderr_writer],
            ours: OurEnds { stdin: stdin_writer, stdout, stderr, named: None },
            until_started: None,
        })
    }

    fn named(stdin: StdinMode, ends: NamedEnds) -> Self {
        let NamedEnds { named, stdin: holder, stdout, stderr } = ends;
        let (stdin, until_started) = match stdin {
            StdinMode::Null => (None, Some(holder)),
            StdinMode::Piped => (Some(holder), None),
        };
        Self { theirs: Vec::new(), ours: OurEnds { stdin, stdout, stderr, named: Some(named) }, until_started }
    }

    /// Where the command finds its ends.
    pub(super) fn place(&self) -> Streams {
        match &self.ours.named {
            Some(named) => Streams::Named { pipes: named.inside.clone(), reads: self.ours.stdin.is_some() },
            None => Streams::Passed,
        }
    }

    /// The ends to pass.
    pub(super) fn theirs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.theirs.iter().map(AsFd::as_fd)
    }

    /// The command has its ends, or never will.
    pub(super) fn into_ours(self) -> OurEnds {
        let Self { theirs, mut ours, until_started } = self;
        drop((theirs, until_started));
        if let (Some(named), Some(stdin)) = (&ours.named, &mut ours.stdin)
            && let Ok(writer) = named.open("in", OFlags::WRONLY)
        {
            // Only for writing, so that we notice when nobody reads any more.
            *stdin = writer;
        }
        ours
    }
}

/// The pipes of a connection into the box: the ends init gets, and those we keep.
pub(super) struct ConnectionPipes {
    theirs: Vec<OwnedFd>,
    ours: Dialed,
}

impl ConnectionPipes {
    fn passed() -> io::Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        let (input, writer) = pipe()?;
        let (reader, output) = pipe()?;
        Ok(Self { theirs: vec![input, output], ours: Dialed { reader, writer, lifelines: None } })
    }

    fn named(named: NamedPipes) -> io::Result<Self> {
        // What we write to is open for both, since nobody reads yet.
        let [writer, live] = [named.open("in", OFlags::RDWR)?, named.open("live", OFlags::RDWR)?];
        let [reader, taking] = [named.open("out", OFlags::RDONLY)?, named.open("err", OFlags::RDONLY)?];
        let lifelines = Lifelines { taking, live, named };
        Ok(Self { theirs: Vec::new(), ours: Dialed { reader, writer, lifelines: Some(lifelines) } })
    }

    /// Where init finds its ends; `None` when they are passed.
    pub(super) fn place(&self) -> Option<CString> {
        self.ours.lifelines.as_ref().map(|lifelines| lifelines.named.inside.clone())
    }

    /// The ends to pass.
    pub(super) fn theirs(&self) -> Vec<BorrowedFd<'_>> {
        self.theirs.iter().map(AsFd::as_fd).collect()
    }

    /// Init has its ends, or will have.
    pub(super) fn into_ours(self) -> Dialed {
        self.ours
    }
}

/// A directory both sides see, with a directory of pipes for each command.
#[derive(Debug)]
pub(crate) struct PipeDirectory {
    on_host: PathBuf,
    /// As init sees it.
    inside: String,
    /// Commands that have their pipes.
    live: Arc<Mutex<BTreeSet<u64>>>,
    /// Those of the next command.
    prepared: Mutex<Option<NamedEnds>>,
}

impl PipeDirectory {
    pub(crate) fn new(on_host: PathBuf, inside: &str) -> Self {
        Self { on_host, inside: inside.to_owned(), live: Arc::default(), prepared: Mutex::default() }
    }

    /// Makes the pipes of a command that ran in a box elsewhere; nobody waits for what it writes.
    pub(crate) fn adopt(&self, number: u64) -> io::Result<AdoptedPipes> {
        // Those of a connection, if it was one, are among them.
        let named = self.make_some(number, &NamedPipes::NAMES)?;
        let holder = named.hold()?;
        let outputs = [named.open("out", OFlags::RDONLY)?, named.open("err", OFlags::RDONLY)?];
        Ok(AdoptedPipes { outputs, holder, named })
    }

    /// Commands that have their pipes.
    pub(super) fn live(&self) -> Vec<u64> {
        lock(&self.live).iter().copied().collect()
    }

    /// Both ends of every pipe in use, so that none is at its end while a box has left and not yet arrived.
    pub(super) fn hold(&self) -> io::Result<Vec<OwnedFd>> {
        let mut held = Vec::new();
        for number in self.live() {
            for name in NamedPipes::NAMES {
                match open(&self.on_host.join(number.to_string()).join(name), OFlags::RDWR) {
                    Ok(end) => held.push(end),
                    // The command has just ended.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(held)
    }

    fn make(&self, number: u64) -> io::Result<NamedPipes> {
        self.make_some(number, &NamedPipes::OF_A_COMMAND)
    }

    fn make_some(&self, number: u64, names: &[&str]) -> io::Result<NamedPipes> {
        let on_host = self.on_host.join(number.to_string());
        fs::create_dir(&on_host)?;
        lock(&self.live).insert(number);
        let inside = CString::new(format!("{}/{number}", self.inside)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let made = NamedPipes { number, on_host, inside, live: Arc::clone(&self.live) };
        for name in names {
            mknodat(CWD, made.on_host.join(name), FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        }
        Ok(made)
    }
}

/// Named pipes with our ends open, before the box opens its own: so neither side waits for the other.
#[derive(Debug)]
struct NamedEnds {
    named: NamedPipes,
    /// Open for both, since nobody reads yet.
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl NamedEnds {
    fn open(named: NamedPipes) -> io::Result<Self> {
        let stdin = named.open("in", OFlags::RDWR)?;
        let (stdout, stderr) = (named.open("out", OFlags::RDONLY)?, named.open("err", OFlags::RDONLY)?);
        Ok(Self { named, stdin, stdout, stderr })
    }
}

/// Named pipes in a directory of their own, removed when dropped.
#[derive(Debug)]
pub(crate) struct NamedPipes {
    number: u64,
    on_host: PathBuf,
    inside: CString,
    live: Arc<Mutex<BTreeSet<u64>>>,
}

impl NamedPipes {
    const NAMES: [&str; 4] = ["in", "out", "err", "live"];
    const OF_A_COMMAND: [&str; 3] = ["in", "out", "err"];

    fn open(&self, name: &str, access: OFlags) -> io::Result<OwnedFd> {
        open(&self.on_host.join(name), access)
    }

    fn give_to(&self, user: u32, group: u32) -> io::Result<()> {
        Self::OF_A_COMMAND
            .iter()
            .try_for_each(|name| std::os::unix::fs::chown(self.on_host.join(name), Some(user), Some(group)))
    }

    fn hold(&self) -> io::Result<Vec<OwnedFd>> {
        Self::NAMES.iter().map(|name| self.open(name, OFlags::RDWR)).collect()
    }
}

fn open(path: &Path, access: OFlags) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?)
}

/// The pipes of a command whose box arrives from elsewhere.
#[derive(Debug)]
pub(crate) struct AdoptedPipes {
    pub(super) outputs: [OwnedFd; 2],
    /// Both ends, until the box has opened its own.
    pub(super) holder: Vec<OwnedFd>,
    pub(super) named: NamedPipes,
}

impl Drop for NamedPipes {
    fn drop(&mut self) {
        lock(&self.live).remove(&self.number);
        for name in Self::NAMES {
            let _ = fs::remove_file(self.on_host.join(name));
        }
        let _ = fs::remove_dir(&self.on_host);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
