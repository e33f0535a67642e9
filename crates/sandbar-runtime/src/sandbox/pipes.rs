//! Pipes between the host and a command or connection.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{Gid, OFlags, Uid},
    pipe::{PipeFlags, pipe_with},
};

use super::{
    Dialed,
    dialed::Liveness,
    named_pipes::{NamedEnds, NamedPipes, PipeDirectory, lock},
};
use crate::{
    StdinMode,
    protocol::{PrepareOrder, Streams},
};

/// Transport of the streams of a box's commands.
#[derive(Debug)]
pub(crate) enum CommandStreams {
    /// Passed as descriptors.
    Passed,
    /// Opened by init as named pipes.
    Named(PipeDirectory),
}

impl CommandStreams {
    /// Creates the pipes of a command, or takes the prepared ones. Returns the command's number;
    /// `next` assigns one.
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
                let ends = prepared.map_or_else(
                    || NamedEnds::open(directory.create(next(), &NamedPipes::STREAMS)?),
                    Ok,
                )?;
                if let Some((user, group)) = owner {
                    ends.named.give_to(user, group)?;
                }
                Ok((ends.named.number, Pipes::named(stdin, ends)))
            }
        }
    }

    /// Creates the pipes of a connection into the box.
    pub(super) fn for_connection(&self, number: u64) -> io::Result<ConnectionPipes> {
        match self {
            Self::Passed => ConnectionPipes::passed(),
            Self::Named(directory) => {
                ConnectionPipes::named(directory.create(number, &NamedPipes::ALL)?)
            }
        }
    }

    /// Creates the pipes of the next command and returns the announcement for init. `None` if there
    /// is nothing to prepare.
    pub(super) fn prepare(&self, next: impl FnOnce() -> u64) -> io::Result<Option<PrepareOrder>> {
        let Self::Named(directory) = self else {
            return Ok(None);
        };
        let mut prepared = lock(&directory.prepared);
        if prepared.is_some() {
            return Ok(None);
        }
        let ends = NamedEnds::open(directory.create(next(), &NamedPipes::STREAMS)?)?;
        let order = PrepareOrder {
            number: ends.named.number,
            pipes: ends.named.inside.clone(),
        };
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

    /// Returns the commands that have named pipes.
    pub(super) fn named(&self) -> Vec<u64> {
        match self {
            Self::Passed => Vec::new(),
            Self::Named(directory) => directory.live(),
        }
    }
}

/// Both ends of a command's pipes.
pub(super) struct Pipes {
    theirs: Vec<OwnedFd>,
    ours: OurEnds,
    /// A write end without which init would block when it opens its read end.
    until_started: Option<OwnedFd>,
}

/// Host ends of a command's pipes.
pub(super) struct OurEnds {
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// Kept as long as the command may have its ends open.
    pub(super) named: Option<NamedPipes>,
}

impl Pipes {
    /// Creates pipes owned by `owner`, a host uid and gid.
    fn passed(stdin: StdinMode, owner: Option<(u32, u32)>) -> io::Result<Self> {
        let pipe = || {
            let ends = pipe_with(PipeFlags::CLOEXEC)?;
            if let Some((user, group)) = owner {
                rustix::fs::fchown(
                    &ends.0,
                    Some(Uid::from_raw(user)),
                    Some(Gid::from_raw(group)),
                )?;
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
            ours: OurEnds {
                stdin: stdin_writer,
                stdout,
                stderr,
                named: None,
            },
            until_started: None,
        })
    }

    fn named(stdin: StdinMode, ends: NamedEnds) -> Self {
        let NamedEnds {
            named,
            stdin: holder,
            stdout,
            stderr,
        } = ends;
        let (stdin, until_started) = match stdin {
            StdinMode::Null => (None, Some(holder)),
            StdinMode::Piped => (Some(holder), None),
        };
        Self {
            theirs: Vec::new(),
            ours: OurEnds {
                stdin,
                stdout,
                stderr,
                named: Some(named),
            },
            until_started,
        }
    }

    /// Returns how init gets the command's ends.
    pub(super) fn source(&self) -> Streams {
        match &self.ours.named {
            Some(named) => Streams::Named {
                pipes: named.inside.clone(),
                reads: self.ours.stdin.is_some(),
            },
            None => Streams::Passed,
        }
    }

    /// Returns the descriptors to pass.
    pub(super) fn theirs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.theirs.iter().map(AsFd::as_fd)
    }

    /// Returns the host ends. To be called after init has opened its ends or has failed.
    pub(super) fn into_ours(self) -> OurEnds {
        let Self {
            theirs,
            mut ours,
            until_started,
        } = self;
        drop((theirs, until_started));
        if let (Some(named), Some(stdin)) = (&ours.named, &mut ours.stdin)
            && let Ok(writer) = named.open("in", OFlags::WRONLY)
        {
            // Write-only, so that a write fails once the last reader is gone.
            *stdin = writer;
        }
        ours
    }
}

/// Both ends of the pipes of a connection into the box.
pub(super) struct ConnectionPipes {
    theirs: Vec<OwnedFd>,
    ours: Dialed,
}

impl ConnectionPipes {
    fn passed() -> io::Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        let (input, writer) = pipe()?;
        let (reader, output) = pipe()?;
        Ok(Self {
            theirs: vec![input, output],
            ours: Dialed {
                reader,
                writer,
                liveness: None,
            },
        })
    }

    fn named(named: NamedPipes) -> io::Result<Self> {
        // Read-write: a write-only open would fail, since there is no reader yet.
        let [writer, live] = [
            named.open("in", OFlags::RDWR)?,
            named.open("live", OFlags::RDWR)?,
        ];
        let [reader, peer_reads] = [
            named.open("out", OFlags::RDONLY)?,
            named.open("err", OFlags::RDONLY)?,
        ];
        let liveness = Liveness {
            peer_reads,
            we_read: live,
            named,
        };
        Ok(Self {
            theirs: Vec::new(),
            ours: Dialed {
                reader,
                writer,
                liveness: Some(liveness),
            },
        })
    }

    /// Returns the directory of named pipes that init opens. `None` if the ends are passed.
    pub(super) fn directory(&self) -> Option<CString> {
        self.ours
            .liveness
            .as_ref()
            .map(|liveness| liveness.named.inside.clone())
    }

    /// Returns the descriptors to pass.
    pub(super) fn theirs(&self) -> Vec<BorrowedFd<'_>> {
        self.theirs.iter().map(AsFd::as_fd).collect()
    }

    /// Returns the host ends.
    pub(super) fn into_ours(self) -> Dialed {
        self.ours
    }
}
