//! Messages between host and init: commands, signals, connections and their results.

use std::{ffi::CString, io};

use sandbar_core::TerminalSize;

use super::wire::{Reader, Writer, malformed};

/// Message from host to init on the event socket. [`Order`]s use a socket of their own, on which
/// the host blocks for the answer.
#[derive(Debug)]
pub(crate) enum Request {
    /// Send a signal to the command's process group.
    Signal {
        number: u64,
        signal: i32,
    },
    /// Kill the command with all its descendants. Sent only if the host has no cgroup for it.
    Kill {
        number: u64,
    },
    Resize {
        number: u64,
        size: TerminalSize,
    },
    /// Answered by [`Event::Report`] once all earlier requests are done.
    Report,
    /// Connect to a port in the box. Answered by exactly one [`Event::Dialed`]. Init cancels it
    /// once the read end of the output pipe is closed.
    Dial {
        number: u64,
        port: u16,
        /// Directory of its named pipes. `in` and `out` carry the data. Neither shows when the
        /// peer is gone, because the gofer of the container may hold a read end. So the host holds
        /// `live` open for writing as long as it reads `out`, and init holds `err` as long as it
        /// reads `in`. `None`: `in` and `out` are passed as descriptors.
        pipes: Option<CString>,
    },
}

/// Message from host to init about a command to start.
#[derive(Debug)]
pub(crate) enum Order {
    Exec(ExecOrder),
    Prepare(PrepareOrder),
}

/// Announces the next command, so that init can open its pipes in advance. Has no answer.
#[derive(Debug)]
pub(crate) struct PrepareOrder {
    pub(crate) number: u64,
    /// Directory of its named pipes.
    pub(crate) pipes: CString,
}

/// Starts a command. Answered by [`ExecAnswer`].
#[derive(Debug)]
pub(crate) struct ExecOrder {
    /// Number the host assigned to the command.
    pub(crate) number: u64,
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
    /// Paths of the program to try, in order.
    pub(crate) candidates: Vec<CString>,
    pub(crate) cwd: CString,
    pub(crate) open_files: Option<u64>,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) streams: Streams,
    pub(crate) group: CommandCgroup,
    /// Number of `cgroup.procs` descriptors passed. The command writes itself into each.
    pub(crate) procs_count: u8,
    /// `None`: root of the box.
    pub(crate) user: Option<UserOrder>,
}

/// User and groups a command runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserOrder {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// Source of a command's stdin, stdout and stderr.
#[derive(Debug)]
pub(crate) enum Streams {
    /// Three descriptors are passed.
    Passed,
    /// Named pipes `in`, `out` and `err` in this directory. Without `reads`, stdin is `/dev/null`.
    Named { pipes: CString, reads: bool },
}

/// Cgroup of a command, by which all its descendants can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandCgroup {
    /// No cgroup. Descendants are found through `/proc`.
    None,
    /// The cgroup whose directory is passed as a descriptor, after the streams.
    Passed,
    /// A cgroup init creates.
    Own,
}

/// Message from init to the host.
#[derive(Debug)]
pub(crate) enum Event {
    /// The box is set up and accepts commands. A prepared box sends it also when it is ready for
    /// its [`BoxOrder`](super::BoxOrder).
    Ready,
    /// A step of the set-up failed.
    SetupFailed {
        step: CString,
        errno: i32,
    },
    Exited {
        number: u64,
        ended: Ended,
    },
    Report {
        /// Number of processes in the box without init.
        processes: u64,
    },
    /// Result of a [`Request::Dial`]. `errno` is 0 on success.
    Dialed {
        number: u64,
        errno: i32,
    },
}

/// Answer of init to an [`ExecOrder`].
#[derive(Debug)]
pub(crate) enum ExecAnswer {
    Started { pid: u32 },
    NotStarted { stage: Stage, errno: i32 },
}

/// Exit code or fatal signal of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

/// Step at which the start of a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Prepare,
    Fork,
    Directory,
    Exec,
    /// Switching to the user it runs as.
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
            Self::Dial {
                number,
                port,
                pipes,
            } => {
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
            1 => Self::Signal {
                number: reader.number()?,
                signal: reader.signed()?,
            },
            2 => Self::Kill {
                number: reader.number()?,
            },
            3 => Self::Resize {
                number: reader.number()?,
                size: read_size(&mut reader)?,
            },
            4 => Self::Report,
            5 => Self::Dial {
                number: reader.number()?,
                port: u16::try_from(reader.number()?).map_err(|_| malformed())?,
                pipes: reader.optional(Reader::text)?,
            },
            _ => return Err(malformed()),
        })
    }
}

/// Message kinds of an [`ExecOrder`]. An init restored from an old checkpoint knows only `EXEC`, so
/// it rejects a command for another user instead of running it as root.
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
            1 => Self::Prepare(PrepareOrder {
                number: reader.number()?,
                pipes: reader.text()?,
            }),
            _ => return Err(malformed()),
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
    /// Returns whether the command has a stdin to read from.
    pub(crate) const fn reads(&self) -> bool {
        !matches!(self.streams, Streams::Named { reads: false, .. })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.byte(if self.user.is_some() {
            EXEC_AS_USER
        } else {
            EXEC
        });
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
            CommandCgroup::None => 0,
            CommandCgroup::Passed => 1,
            CommandCgroup::Own => 2,
        });
        writer.byte(self.procs_count);
        if let Some(user) = &self.user {
            user.write(&mut writer);
        }
        writer.finish()
    }

    /// Reads all fields but `user`.
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
                1 => Streams::Named {
                    pipes: reader.text()?,
                    reads: reader.byte()? != 0,
                },
                _ => return Err(malformed()),
            },
            group: match reader.byte()? {
                0 => CommandCgroup::None,
                1 => CommandCgroup::Passed,
                2 => CommandCgroup::Own,
                _ => return Err(malformed()),
            },
            procs_count: reader.byte()?,
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
        let mut id = || u32::try_from(reader.number()?).map_err(|_| malformed());
        let (uid, gid, count) = (id()?, id()?, id()?);
        Ok(Self {
            uid,
            gid,
            groups: (0..count).map(|_| id()).collect::<io::Result<_>>()?,
        })
    }
}

fn write_size(writer: &mut Writer, size: TerminalSize) {
    writer.number(size.rows.into());
    writer.number(size.columns.into());
}

fn read_size(reader: &mut Reader<'_>) -> io::Result<TerminalSize> {
    let side = |number: u64| u16::try_from(number).map_err(|_| malformed());
    Ok(TerminalSize {
        rows: side(reader.number()?)?,
        columns: side(reader.number()?)?,
    })
}

impl Event {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Ready => writer.byte(0),
            Self::SetupFailed { step, errno } => {
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
            1 => Self::SetupFailed {
                step: reader.text()?,
                errno: reader.signed()?,
            },
            4 => Self::Exited {
                number: reader.number()?,
                ended: match (reader.byte()?, reader.signed()?) {
                    (0, code) => Ended::Code(code),
                    (1, signal) => Ended::Signal(signal),
                    _ => return Err(malformed()),
                },
            },
            5 => Self::Report {
                processes: reader.number()?,
            },
            6 => Self::Dialed {
                number: reader.number()?,
                errno: reader.signed()?,
            },
            _ => return Err(malformed()),
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
            0 => Self::Started {
                pid: u32::try_from(reader.number()?).map_err(|_| malformed())?,
            },
            1 => Self::NotStarted {
                stage: Stage::from_code(reader.byte()?).ok_or_else(malformed)?,
                errno: reader.signed()?,
            },
            _ => return Err(malformed()),
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
