//! What host and init say to each other: commands, signals, connections, and what became of them.

use std::{ffi::CString, io};

use sandbar_core::TerminalSize;

use super::wire::{Reader, Writer, garbled};

/// The host to init, beside [`ExecOrder`]s, which have a socket of their own so that they can wait for their answer.
#[derive(Debug)]
pub(crate) enum Request {
    /// A signal for the command's process group.
    Signal {
        number: u64,
        signal: i32,
    },
    /// An end for everything the command started. Only where init keeps the groups.
    Kill {
        number: u64,
    },
    Resize {
        number: u64,
        size: TerminalSize,
    },
    /// Answered by an event of the same name when everything before it has been done.
    Report,
    /// A connection to a port of the box. Answered by [`Event::Dialed`], once; until then and afterwards it is wanted as
    /// long as somebody reads what comes out.
    Dial {
        number: u64,
        port: u16,
        /// The directory of its pipes. `in` and `out` carry bytes. That the other side is gone does not show on pipes with
        /// names, since the gofer of the container may hold an end for reading; so `live` is held by the host as long as it
        /// reads, and `err` by init as long as it takes what comes in. `None`: `in` and `out` come along as descriptors.
        pipes: Option<CString>,
    },
}

/// The host to init, about commands to start.
#[derive(Debug)]
pub(crate) enum Order {
    Exec(ExecOrder),
    Prepare(PrepareOrder),
}

/// A command that will come. What can be done for it now is done now; there is no answer.
#[derive(Debug)]
pub(crate) struct PrepareOrder {
    pub(crate) number: u64,
    /// The directory of its pipes.
    pub(crate) pipes: CString,
}

/// A command to start. The answer is an [`ExecAnswer`].
#[derive(Debug)]
pub(crate) struct ExecOrder {
    /// The host's name for it.
    pub(crate) number: u64,
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
    /// Paths of the program to try, in order.
    pub(crate) candidates: Vec<CString>,
    pub(crate) cwd: CString,
    pub(crate) open_files: Option<u64>,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) streams: Streams,
    pub(crate) group: GroupPlace,
    /// So many `cgroup.procs` descriptors come along; the command writes itself into each.
    pub(crate) attach: u8,
    /// Root of the box when absent.
    pub(crate) user: Option<UserOrder>,
}

/// Who a command runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserOrder {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// Where stdin, stdout and stderr of a command come from.
#[derive(Debug)]
pub(crate) enum Streams {
    /// Three descriptors come along.
    Passed,
    /// Pipes `in`, `out` and `err` in this directory; without `reads` there is nothing to read.
    Named { pipes: CString, reads: bool },
}

/// How the processes of a command are kept together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupPlace {
    /// Not at all: what `/proc` shows has to do.
    Nowhere,
    /// In a cgroup whose directory comes along, after the streams.
    Passed,
    /// In a cgroup init makes.
    Own,
}

/// Init to the host.
#[derive(Debug)]
pub(crate) enum Event {
    /// The box stands; commands may come. One that was made ahead says it also when its order may come.
    Ready,
    /// The box could not be set up.
    Broken {
        step: CString,
        errno: i32,
    },
    Exited {
        number: u64,
        ended: Ended,
    },
    Report {
        /// How many there are in the box beside init.
        processes: u64,
    },
    /// The connection of this number stands, or why not; `errno` is 0 when it stands.
    Dialed {
        number: u64,
        errno: i32,
    },
}

/// Init to the host, to an order.
#[derive(Debug)]
pub(crate) enum ExecAnswer {
    Started { pid: u32 },
    NotStarted { stage: Stage, errno: i32 },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

/// What a command was doing when it could not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Prepare,
    Fork,
    Directory,
    Exec,
    /// Becoming the user it runs as.
    User,
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Signal { number, signal } => {
                writer.byte(1);
                writer.number(*number);
                writer.signed(*signal);
            }
            Self::Kill { number } => {
                writer.byte(2);
                writer.number(*number);
            }
            Self::Resize { number, size } => {
                writer.byte(3);
                writer.number(*number);
                write_size(&mut writer, *size);
            }
            Self::Report => writer.byte(4),
            Self::Dial { number, port, pipes } => {
                writer.byte(5);
                writer.number(*number);
                writer.number((*port).into());
                writer.optional(pipes.as_deref(), Writer::text);
            }
        }
        writer.finish()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(match reader.byte()? {
            1 => Self::Signal { number: reader.number()?, signal: reader.signed()? },
            2 => Self::Kill { number: reader.number()? },
            3 => Self::Resize { number: reader.number()?, size: read_size(&mut reader)? },
            4 => Self::Report,
            5 => Self::Dial {
                number: reader.number()?,
                port: u16::try_from(reader.number()?).map_err(|_| garbled())?,
                pipes: reader.optional(Reader::text)?,
            },
            _ => return Err(garbled()),
        })
    }
}

/// Kinds of orders. An init from before there were users, as checkpoints have it, knows the first only, and so does not run
/// as root what was meant for somebody else.
const EXEC: u8 = 0;
const EXEC_AS_USER: u8 = 2;

impl Order {
    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(match reader.byte()? {
            kind @ (EXEC | EXEC_AS_USER) => {
                let mut order = ExecOrder::read(&mut reader)?;
                if kind == EXEC_AS_USER {
                    order.user = Some(UserOrder::read(&mut reader)?);
                }
                Self::Exec(order)
            }
            1 => Self::Prepare(PrepareOrder { number: reader.number()?, pipes: reader.text()? }),
            _ => return Err(garbled()),
        })
    }
}

impl PrepareOrder {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.byte(1);
        writer.number(self.number);
        writer.text(&self.pipes);
        writer.finish()
    }
}

impl ExecOrder {
    /// Whether there may be something to read.
    pub(crate) const fn reads(&self) -> bool {
        !matches!(self.streams, Streams::Named { reads: false, .. })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.byte(if self.user.is_some() { EXEC_AS_USER } else { EXEC });
        writer.number(self.number);
        writer.texts(&self.argv);
        writer.texts(&self.envp);
        writer.texts(&self.candidates);
        writer.text(&self.cwd);
        writer.optional(self.open_files, Writer::number);
        writer.optional(self.terminal, write_size);
        match &self.streams {
            Streams::Passed => writer.byte(0),
            Streams::Named { pipes, reads } => {
                writer.byte(1);
                writer.text(pipes);
                writer.byte(u8::from(*reads));
            }
        }
        writer.byte(match self.group {
            GroupPlace::Nowhere => 0,
            GroupPlace::Passed => 1,
            GroupPlace::Own => 2,
        });
        writer.byte(self.attach);
        if let Some(user) = &self.user {
            user.write(&mut writer);
        }
        writer.finish()
    }

    /// All but who it runs as.
    fn read(reader: &mut Reader<'_>) -> io::Result<Self> {
        Ok(Self {
            number: reader.number()?,
            argv: reader.texts()?,
            envp: reader.texts()?,
            candidates: reader.texts()?,
            cwd: reader.text()?,
            open_files: reader.optional(Reader::number)?,
            terminal: reader.optional(read_size)?,
            streams: match reader.byte()? {
                0 => Streams::Passed,
                1 => Streams::Named { pipes: reader.text()?, reads: reader.byte()? != 0 },
                _ => return Err(garbled()),
            },
            group: match reader.byte()? {
                0 => GroupPlace::Nowhere,
                1 => GroupPlace::Passed,
                2 => GroupPlace::Own,
                _ => return Err(garbled()),
            },
            attach: reader.byte()?,
            user: None,
        })
    }
}

impl UserOrder {
    fn write(&self, writer: &mut Writer) {
        writer.number(self.uid.into());
        writer.number(self.gid.into());
        writer.number(self.groups.len() as u64);
        for group in &self.groups {
            writer.number((*group).into());
        }
    }

    fn read(reader: &mut Reader<'_>) -> io::Result<Self> {
        let mut id = || u32::try_from(reader.number()?).map_err(|_| garbled());
        let (uid, gid, count) = (id()?, id()?, id()?);
        Ok(Self { uid, gid, groups: (0..count).map(|_| id()).collect::<io::Result<_>>()? })
    }
}

fn write_size(writer: &mut Writer, size: TerminalSize) {
    writer.number(size.rows.into());
    writer.number(size.columns.into());
}

fn read_size(reader: &mut Reader<'_>) -> io::Result<TerminalSize> {
    let side = |number: u64| u16::try_from(number).map_err(|_| garbled());
    Ok(TerminalSize { rows: side(reader.number()?)?, columns: side(reader.number()?)? })
}

impl Event {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Ready => writer.byte(0),
            Self::Broken { step, errno } => {
                writer.byte(1);
                writer.text(step);
                writer.signed(*errno);
            }
            Self::Exited { number, ended } => {
                writer.byte(4);
                writer.number(*number);
                let (kind, value) = match ended {
                    Ended::Code(code) => (0, *code),
                    Ended::Signal(signal) => (1, *signal),
                };
                writer.byte(kind);
                writer.signed(value);
            }
            Self::Report { processes } => {
                writer.byte(5);
                writer.number(*processes);
            }
            Self::Dialed { number, errno } => {
                writer.byte(6);
                writer.number(*number);
                writer.signed(*errno);
            }
        }
        writer.finish()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(match reader.byte()? {
            0 => Self::Ready,
            1 => Self::Broken { step: reader.text()?, errno: reader.signed()? },
            4 => Self::Exited {
                number: reader.number()?,
                ended: match (reader.byte()?, reader.signed()?) {
                    (0, code) => Ended::Code(code),
                    (1, signal) => Ended::Signal(signal),
                    _ => return Err(garbled()),
                },
            },
            5 => Self::Report { processes: reader.number()? },
            6 => Self::Dialed { number: reader.number()?, errno: reader.signed()? },
            _ => return Err(garbled()),
        })
    }
}

impl ExecAnswer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Started { pid } => {
                writer.byte(0);
                writer.number((*pid).into());
            }
            Self::NotStarted { stage, errno } => {
                writer.byte(1);
                writer.byte(stage.code());
                writer.signed(*errno);
            }
        }
        writer.finish()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(match reader.byte()? {
            0 => Self::Started { pid: u32::try_from(reader.number()?).map_err(|_| garbled())? },
            1 => Self::NotStarted {
                stage: Stage::from_code(reader.byte()?).ok_or_else(garbled)?,
                errno: reader.signed()?,
            },
            _ => return Err(garbled()),
        })
    }
}

impl Stage {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Prepare => 0,
            Self::Fork => 1,
            Self::Directory => 2,
            Self::Exec => 3,
            Self::User => 4,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Prepare,
            1 => Self::Fork,
            2 => Self::Directory,
            3 => Self::Exec,
            4 => Self::User,
            _ => return None,
        })
    }
}
