//! Messages between host and spawner: boxes, network namespaces and netns listeners to create.

use std::{ffi::CString, io};

use sandbar_core::RootRights;

use super::wire::{Reader, Writer, malformed};

/// Message from host to spawner.
#[derive(Debug)]
pub(crate) enum SpawnerRequest {
    /// Create a user namespace that maps uids and gids `0..65536` to those from `first`.
    Owners { first: u32, creator: u32 },
    /// Create a box for a session. Init reports success or failure on its event socket; if init
    /// could not be forked, the spawner does. The spawner itself answers only for
    /// [`BoxUsers::Caller`], whose namespaces are created with the box. Descriptors: those of the
    /// start, then those of the order.
    Box(StartOrder, BoxOrder),
    /// Create a network namespace that has only a loopback interface.
    Network,
    /// Check whether netns listeners can be opened in a user namespace of the caller.
    ProbeListeners,
    /// Open the netns listeners of a [`BoxUsers::Caller`] box. Descriptors: its user namespace and
    /// its network namespace.
    OpenListeners(ListenersOrder),
    /// Create a native box before a session needs it. It sends [`Event::Ready`](super::Event) and
    /// waits for its [`BoxOrder`] on its own socket.
    Prepare(StartOrder),
}

/// Session-independent part of a box. Descriptors, in this order: init's two sockets, for orders
/// and for events; the directory of the session's v2 cgroup, if `group`; `procs_count` times
/// `cgroup.procs` of v1 groups; the network namespace, if `network`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartOrder {
    pub(crate) group: bool,
    pub(crate) procs_count: u8,
    pub(crate) network: bool,
}

/// Netns listeners to open.
#[derive(Debug)]
pub(crate) struct ListenersOrder {
    pub(crate) udp_ports: Vec<u16>,
    /// Open listeners for `udp_ports` only, without TCP and DNS.
    pub(crate) only_udp: bool,
}

/// Netns listeners that were opened. Their descriptors follow in the order of the fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenersParts {
    pub(crate) tcp: u8,
    /// Port of each listener.
    pub(crate) dns: Vec<u16>,
    pub(crate) udp: Vec<u16>,
}

/// Session-specific part of a box. Descriptors, in this order: the root, unless it is
/// [`BoxRoot::Directory`]; the user namespace, for [`BoxUsers::Namespace`]; `cgroup.procs` of
/// init's leaf group, if `init_leaf`; a detached mount of `/dev`, for an unisolated box over a
/// mount.
#[derive(Debug)]
pub(crate) struct BoxOrder {
    pub(crate) mode: InitMode,
    pub(crate) root: BoxRoot,
    pub(crate) user: BoxUsers,
    pub(crate) init_leaf: bool,
    pub(crate) hostname: CString,
    /// Host uid of the box's root.
    pub(crate) first_owner: u32,
    /// Path of a [`BoxRoot::Directory`].
    pub(crate) path: CString,
    pub(crate) trust: Option<TrustOrder>,
    pub(crate) rights: RootRights,
    /// Process ids up to this one are not assigned.
    pub(crate) skip_pids: u64,
    /// Size of the machine that the box sees. `None`: that of the machine.
    pub(crate) visible_memory: Option<u64>,
    pub(crate) visible_cpus: Option<u64>,
}

/// CA certificates to mount into a box.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TrustOrder {
    pub(crate) authority: CString,
    pub(crate) bundle: CString,
}

/// Isolation that init sets up and relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitMode {
    /// Namespaces, capabilities, Landlock and seccomp of a native box.
    Native,
    /// The gVisor kernel isolates the box. Commands lose the capabilities init has in it.
    Guest,
    /// No isolation.
    Unisolated,
}

/// Root file system of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoxRoot {
    /// A detached mount, passed as a descriptor.
    Mount,
    /// The directory at `path`, with everything mounted in it.
    Directory,
    /// The host's own root. The passed descriptor is the directory that the session's paths are
    /// resolved in.
    Host,
}

/// Users that exist in a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoxUsers {
    /// The host's users, without a user namespace.
    Host,
    /// Those of the user namespace that is passed.
    Namespace,
    /// A new user namespace that maps root to the caller, and nothing else. An unprivileged host
    /// cannot create any other.
    Caller,
}

/// Answer of the spawner to the host.
#[derive(Debug)]
pub(crate) enum SpawnerAnswer {
    /// First message. `errno` is 0 if the spawner can create mount namespaces.
    Hello {
        errno: i32,
    },
    /// Descriptor: the user namespace.
    Owners,
    /// Descriptor: the network namespace.
    Network,
    /// Descriptors: the user namespace and the network namespace of a box.
    Namespaces,
    /// Netns listeners can be opened.
    ListenersWork,
    /// Descriptors: the listeners, as many as fit; the rest follows with empty frames.
    Listeners(ListenersParts),
    Failed {
        step: CString,
        errno: i32,
    },
}

impl SpawnerRequest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Owners { first, creator } => {
                writer.byte(0);
                writer.number((*first).into());
                writer.number((*creator).into());
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
            Self::ProbeListeners => writer.byte(4),
            Self::OpenListeners(order) => {
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
            0 => Self::Owners {
                first: u32::try_from(reader.number()?).map_err(|_| malformed())?,
                creator: u32::try_from(reader.number()?).map_err(|_| malformed())?,
            },
            1 => Self::Box(StartOrder::read(&mut reader)?, BoxOrder::read(&mut reader)?),
            2 => Self::Prepare(StartOrder::read(&mut reader)?),
            3 => Self::Network,
            4 => Self::ProbeListeners,
            5 => Self::OpenListeners(ListenersOrder {
                udp_ports: read_ports(&mut reader)?,
                only_udp: reader.byte()? != 0,
            }),
            _ => return Err(malformed()),
        })
    }
}

impl StartOrder {
    fn write(self, writer: &mut Writer) {
        writer.byte(u8::from(self.group));
        writer.byte(self.procs_count);
        writer.byte(u8::from(self.network));
    }

    fn read(reader: &mut Reader<'_>) -> io::Result<Self> {
        Ok(Self {
            group: reader.byte()? != 0,
            procs_count: reader.byte()?,
            network: reader.byte()? != 0,
        })
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
    (0..count)
        .map(|_| u16::try_from(reader.number()?).map_err(|_| malformed()))
        .collect()
}

impl BoxOrder {
    /// Encodes the order for a prepared box.
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
            InitMode::Native => 0,
            InitMode::Guest => 1,
            InitMode::Unisolated => 2,
        });
        writer.byte(match self.root {
            BoxRoot::Mount => 0,
            BoxRoot::Directory => 1,
            BoxRoot::Host => 2,
        });
        writer.byte(match self.user {
            BoxUsers::Host => 0,
            BoxUsers::Namespace => 1,
            BoxUsers::Caller => 2,
        });
        writer.byte(u8::from(self.init_leaf));
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
        writer.optional(self.visible_memory, Writer::number);
        writer.optional(self.visible_cpus, Writer::number);
    }

    fn read(reader: &mut Reader<'_>) -> io::Result<Self> {
        Ok(Self {
            mode: match reader.byte()? {
                0 => InitMode::Native,
                1 => InitMode::Guest,
                2 => InitMode::Unisolated,
                _ => return Err(malformed()),
            },
            root: match reader.byte()? {
                0 => BoxRoot::Mount,
                1 => BoxRoot::Directory,
                2 => BoxRoot::Host,
                _ => return Err(malformed()),
            },
            user: match reader.byte()? {
                0 => BoxUsers::Host,
                1 => BoxUsers::Namespace,
                2 => BoxUsers::Caller,
                _ => return Err(malformed()),
            },
            init_leaf: reader.byte()? != 0,
            hostname: reader.text()?,
            first_owner: u32::try_from(reader.number()?).map_err(|_| malformed())?,
            path: reader.text()?,
            trust: reader.optional(|reader| {
                Ok(TrustOrder {
                    authority: reader.text()?,
                    bundle: reader.text()?,
                })
            })?,
            rights: match reader.byte()? {
                0 => RootRights::Bare,
                1 => RootRights::Own,
                _ => return Err(malformed()),
            },
            skip_pids: reader.number()?,
            visible_memory: reader.optional(Reader::number)?,
            visible_cpus: reader.optional(Reader::number)?,
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
            Self::ListenersWork => writer.byte(5),
            Self::Listeners(parts) => {
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
            5 => Self::ListenersWork,
            6 => Self::Listeners(ListenersParts {
                tcp: reader.byte()?,
                dns: read_ports(&mut reader)?,
                udp: read_ports(&mut reader)?,
            }),
            2 => Self::Failed {
                step: reader.text()?,
                errno: reader.signed()?,
            },
            3 => Self::Hello {
                errno: reader.signed()?,
            },
            _ => return Err(malformed()),
        })
    }
}
