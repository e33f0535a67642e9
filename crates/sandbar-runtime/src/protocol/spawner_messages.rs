//! What host and spawner say to each other: boxes, networks and gates to make, and what a box is to become.

use std::{ffi::CString, io};

use sandbar_core::RootRights;

use super::wire::{Reader, Writer, garbled};

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
    pub(crate) rights: RootRights,
    /// Process ids up to here are not given out.
    pub(crate) skip_pids: u64,
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
        writer.byte(match self.rights {
            RootRights::Bare => 0,
            RootRights::Own => 1,
        });
        writer.number(self.skip_pids);
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
            rights: match reader.byte()? {
                0 => RootRights::Bare,
                1 => RootRights::Own,
                _ => return Err(garbled()),
            },
            skip_pids: reader.number()?,
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
