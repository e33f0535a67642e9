//! The messages.

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
}

/// The host to the spawner.
#[derive(Debug)]
pub(crate) enum SpawnerRequest {
    /// A user namespace that maps owners `0..65536` to those from `first`.
    Owners { first: u32 },
    /// A box for a session. Init tells whether the box stands, and when there is no init, the spawner tells in its place.
    /// There is an answer only where the box has the caller as its only user, since its network is made with it.
    /// Descriptors come along: those of the start, then those of the order.
    Box(StartOrder, BoxOrder),
    /// A network namespace with nothing but its loopback.
    Network,
    /// Whether gates can be opened in networks of the caller's own user namespaces.
    TryGate,
    /// The gate of a box whose user namespace has the caller as its only user. That and the network come along.
    OpenGate(GateOrder),
    /// A walled box for a session to come. It tells when it has done what it can, and waits for its order, which comes
    /// over its own socket.
    Prepare(StartOrder),
}

/// How a box begins. Descriptors come along in this order: init's two sockets, for orders and for the rest; the session's
/// cgroup, if any; `attach` times `cgroup.procs`; the network, if one was made ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartOrder {
    pub(crate) group: bool,
    pub(crate) attach: u8,
    pub(crate) network: bool,
}

/// Which sockets of a gate are wanted.
#[derive(Debug)]
pub(crate) struct GateOrder {
    pub(crate) udp_ports: Vec<u16>,
    /// Those for UDP ports and no others.
    pub(crate) only_udp: bool,
}

/// Which sockets of a gate there are, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GateParts {
    pub(crate) tcp: u8,
    /// The port of each.
    pub(crate) dns: Vec<u16>,
    pub(crate) udp: Vec<u16>,
}

/// What a box is to become. Descriptors come along in this order: the root, unless it is a path; the user namespace, if
/// one is passed; the `cgroup.procs` of init's own group below the session's, if any; `attach` times `cgroup.procs`; the
/// devices, a detached mount, for a tree without walls.
#[derive(Debug)]
pub(crate) struct BoxOrder {
    pub(crate) mode: InitMode,
    pub(crate) root: RootPlace,
    pub(crate) user: UserPlace,
    pub(crate) room: bool,
    pub(crate) attach: u8,
    pub(crate) hostname: CString,
    /// The owner on the host that is root in the box.
    pub(crate) first_owner: u32,
    /// Where the root lies, when it is a directory.
    pub(crate) path: CString,
    pub(crate) trust: Option<TrustOrder>,
}

/// Certificates a box shows beside its tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TrustOrder {
    pub(crate) authority: CString,
    pub(crate) bundle: CString,
}

/// How init treats commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitMode {
    /// Every line of defence of a native box.
    Walled,
    /// Another kernel is the wall; commands lose the capabilities init has there.
    Guest,
    /// No wall.
    Open,
}

/// What a box has as `/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootPlace {
    /// A detached mount.
    Tree,
    /// The directory at `path`, with everything mounted in it.
    Directory,
    /// The host's own root; the descriptor is the directory paths of the session start at.
    Host,
}

/// Who a box runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserPlace {
    /// The host's own users.
    Host,
    /// The user namespace that comes along.
    Passed,
    /// A user namespace with the caller as its only user: all an ordinary user can have.
    Caller,
}

/// The spawner to the host.
#[derive(Debug)]
pub(crate) enum SpawnerAnswer {
    /// It stands, and can make boxes with mounts of their own; or why it cannot.
    Hello {
        errno: i32,
    },
    /// A descriptor comes along.
    Owners,
    /// A descriptor comes along.
    Network,
    /// The user namespace and the network of a box come along.
    Namespaces,
    /// Gates can be opened.
    GateWorks,
    /// Its sockets come along, as many as fit, and the rest with frames that have nothing else.
    Gate(GateParts),
    Failed {
        step: CString,
        errno: i32,
    },
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

impl Order {
    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(match reader.byte()? {
            0 => Self::Exec(ExecOrder::read(&mut reader)?),
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
        writer.byte(0);
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
        writer.finish()
    }

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
        })
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
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Prepare,
            1 => Self::Fork,
            2 => Self::Directory,
            3 => Self::Exec,
            _ => return None,
        })
    }
}

impl SpawnerRequest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Owners { first } => {
                writer.byte(0);
                writer.number((*first).into());
            }
            Self::Box(start, order) => {
                writer.byte(1);
                start.write(&mut writer);
                order.write(&mut writer);
            }
            Self::Prepare(start) => {
                writer.byte(2);
                start.write(&mut writer);
            }
            Self::Network => writer.byte(3),
            Self::TryGate => writer.byte(4),
            Self::OpenGate(order) => {
                writer.byte(5);
                write_ports(&mut writer, &order.udp_ports);
                writer.byte(u8::from(order.only_udp));
            }
        }
        writer.finish()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(match reader.byte()? {
            0 => Self::Owners { first: u32::try_from(reader.number()?).map_err(|_| garbled())? },
            1 => Self::Box(StartOrder::read(&mut reader)?, BoxOrder::read(&mut reader)?),
            2 => Self::Prepare(StartOrder::read(&mut reader)?),
            3 => Self::Network,
            4 => Self::TryGate,
            5 => Self::OpenGate(GateOrder { udp_ports: read_ports(&mut reader)?, only_udp: reader.byte()? != 0 }),
            _ => return Err(garbled()),
        })
    }
}

impl StartOrder {
    fn write(self, writer: &mut Writer) {
        writer.byte(u8::from(self.group));
        writer.byte(self.attach);
        writer.byte(u8::from(self.network));
    }

    fn read(reader: &mut Reader<'_>) -> io::Result<Self> {
        Ok(Self { group: reader.byte()? != 0, attach: reader.byte()?, network: reader.byte()? != 0 })
    }
}

fn write_ports(writer: &mut Writer, ports: &[u16]) {
    writer.number(ports.len() as u64);
    for port in ports {
        writer.number((*port).into());
    }
}

fn read_ports(reader: &mut Reader<'_>) -> io::Result<Vec<u16>> {
    let count = reader.number()?;
    (0..count).map(|_| u16::try_from(reader.number()?).map_err(|_| garbled())).collect()
}

impl BoxOrder {
    /// For a box that was prepared.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        self.write(&mut writer);
        writer.finish()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        Self::read(&mut Reader::new(body))
    }

    fn write(&self, writer: &mut Writer) {
        writer.byte(match self.mode {
            InitMode::Walled => 0,
            InitMode::Guest => 1,
            InitMode::Open => 2,
        });
        writer.byte(match self.root {
            RootPlace::Tree => 0,
            RootPlace::Directory => 1,
            RootPlace::Host => 2,
        });
        writer.byte(match self.user {
            UserPlace::Host => 0,
            UserPlace::Passed => 1,
            UserPlace::Caller => 2,
        });
        writer.byte(u8::from(self.room));
        writer.byte(self.attach);
        writer.text(&self.hostname);
        writer.number(self.first_owner.into());
        writer.text(&self.path);
        writer.optional(self.trust.as_ref(), |writer, trust| {
            writer.text(&trust.authority);
            writer.text(&trust.bundle);
        });
    }

    fn read(reader: &mut Reader<'_>) -> io::Result<Self> {
        Ok(Self {
            mode: match reader.byte()? {
                0 => InitMode::Walled,
                1 => InitMode::Guest,
                2 => InitMode::Open,
                _ => return Err(garbled()),
            },
            root: match reader.byte()? {
                0 => RootPlace::Tree,
                1 => RootPlace::Directory,
                2 => RootPlace::Host,
                _ => return Err(garbled()),
            },
            user: match reader.byte()? {
                0 => UserPlace::Host,
                1 => UserPlace::Passed,
                2 => UserPlace::Caller,
                _ => return Err(garbled()),
            },
            room: reader.byte()? != 0,
            attach: reader.byte()?,
            hostname: reader.text()?,
            first_owner: u32::try_from(reader.number()?).map_err(|_| garbled())?,
            path: reader.text()?,
            trust: reader.optional(|reader| Ok(TrustOrder { authority: reader.text()?, bundle: reader.text()? }))?,
        })
    }
}

impl SpawnerAnswer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Owners => writer.byte(0),
            Self::Network => writer.byte(1),
            Self::Namespaces => writer.byte(4),
            Self::GateWorks => writer.byte(5),
            Self::Gate(parts) => {
                writer.byte(6);
                writer.byte(parts.tcp);
                write_ports(&mut writer, &parts.dns);
                write_ports(&mut writer, &parts.udp);
            }
            Self::Hello { errno } => {
                writer.byte(3);
                writer.signed(*errno);
            }
            Self::Failed { step, errno } => {
                writer.byte(2);
                writer.text(step);
                writer.signed(*errno);
            }
        }
        writer.finish()
    }

    pub(crate) fn decode(body: &[u8]) -> io::Result<Self> {
        let mut reader = Reader::new(body);
        Ok(match reader.byte()? {
            0 => Self::Owners,
            1 => Self::Network,
            4 => Self::Namespaces,
            5 => Self::GateWorks,
            6 => Self::Gate(GateParts {
                tcp: reader.byte()?,
                dns: read_ports(&mut reader)?,
                udp: read_ports(&mut reader)?,
            }),
            2 => Self::Failed { step: reader.text()?, errno: reader.signed()? },
            3 => Self::Hello { errno: reader.signed()? },
            _ => return Err(garbled()),
        })
    }
}
