//! Host side of the spawner process.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use sandbar_core::MutexExt as _;
use sandbar_netns::{NetnsListeners, UdpListener};

use crate::{
    protocol::{
        Connection, ListenersOrder, ListenersParts, MAX_DESCRIPTORS, SpawnerAnswer, SpawnerRequest,
    },
    role,
};

#[derive(Debug)]
pub(crate) struct Spawner {
    /// `None` after [`end`](Self::end).
    connection: Mutex<Option<Connection>>,
    process: Mutex<Child>,
    /// Reason why it cannot create mount namespaces, if it cannot.
    pub(crate) no_mounts: Option<io::Error>,
}

impl Spawner {
    pub(crate) fn start() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        #[expect(
            clippy::disallowed_methods,
            reason = "this module owns the spawner process"
        )]
        let process = Command::new(role::program()?)
            .arg0(role::SPAWNER)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()?;
        let mut connection = Connection::new(ours.into());
        let no_mounts = match receive(&mut connection)? {
            SpawnerAnswer::Hello { errno: 0 } => None,
            SpawnerAnswer::Hello { errno } => Some(io::Error::from_raw_os_error(errno)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self {
            connection: Mutex::new(Some(connection)),
            process: Mutex::new(process),
            no_mounts,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.lock_unpoisoned().id()
    }

    /// Creates a user namespace, as the uid `creator`, that maps uids and gids `0..65536` to those
    /// from `first`.
    pub(crate) fn make_owners(&self, first: u32, creator: u32) -> io::Result<OwnedFd> {
        self.ask(
            &SpawnerRequest::Owners { first, creator },
            &[],
            |answer, connection| match answer {
                SpawnerAnswer::Owners => connection.descriptor(),
                _ => Err(io::ErrorKind::InvalidData.into()),
            },
        )
    }

    /// Creates a network namespace that has only a loopback interface.
    pub(crate) fn network(&self) -> io::Result<OwnedFd> {
        self.ask(
            &SpawnerRequest::Network,
            &[],
            |answer, connection| match answer {
                SpawnerAnswer::Network => connection.descriptor(),
                _ => Err(io::ErrorKind::InvalidData.into()),
            },
        )
    }

    /// Tests whether [`open_listeners`](Self::open_listeners) works.
    pub(crate) fn probe_listeners(&self) -> io::Result<()> {
        self.ask(
            &SpawnerRequest::ProbeListeners,
            &[],
            |answer, _| match answer {
                SpawnerAnswer::ListenersWork => Ok(()),
                _ => Err(io::ErrorKind::InvalidData.into()),
            },
        )
    }

    /// Opens the netns listeners of a box with its own user namespace of the caller.
    pub(crate) fn open_listeners(
        &self,
        order: ListenersOrder,
        namespaces: &[OwnedFd; 2],
    ) -> io::Result<NetnsListeners> {
        let [user, network] = namespaces.each_ref().map(AsFd::as_fd);
        self.ask(
            &SpawnerRequest::OpenListeners(order),
            &[user, network],
            |answer, connection| match answer {
                SpawnerAnswer::Listeners(parts) => receive_listeners(&parts, connection),
                _ => Err(io::ErrorKind::InvalidData.into()),
            },
        )
    }

    /// Creates a [`BoxUsers::Caller`](crate::protocol::BoxUsers) box. Returns its user namespace
    /// and its network namespace.
    pub(crate) fn order_as_caller(
        &self,
        request: &SpawnerRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<[OwnedFd; 2]> {
        self.ask(request, descriptors, |answer, connection| match answer {
            SpawnerAnswer::Namespaces => Ok([connection.descriptor()?, connection.descriptor()?]),
            _ => Err(io::ErrorKind::InvalidData.into()),
        })
    }

    /// Creates a box. It reports success or failure on its own sockets.
    pub(crate) fn order(
        &self,
        request: &SpawnerRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let body = request.encode();
        let connection = self.connection.lock_unpoisoned();
        connection
            .as_ref()
            .ok_or(io::ErrorKind::NotConnected)?
            .send(&body, descriptors)
    }

    fn ask<T>(
        &self,
        request: &SpawnerRequest,
        descriptors: &[BorrowedFd<'_>],
        decode: impl FnOnce(SpawnerAnswer, &mut Connection) -> io::Result<T>,
    ) -> io::Result<T> {
        let body = request.encode();
        let mut connection = self.connection.lock_unpoisoned();
        let connection = connection.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        connection.send(&body, descriptors)?;
        match receive(connection)? {
            SpawnerAnswer::Failed { step, errno } => {
                let cause = io::Error::from_raw_os_error(errno);
                Err(io::Error::new(
                    cause.kind(),
                    format!("{}: {cause}", step.to_string_lossy()),
                ))
            }
            answer => decode(answer, connection),
        }
    }

    /// Ends the spawner and waits for its exit.
    pub(crate) fn end(&self) {
        drop(self.connection.lock_unpoisoned().take());
        let _ = self.process.lock_unpoisoned().wait();
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Receives the listeners passed with an answer and with the empty frames after it.
fn receive_listeners(
    parts: &ListenersParts,
    connection: &mut Connection,
) -> io::Result<NetnsListeners> {
    let count = usize::from(parts.tcp) + parts.dns.len() + parts.udp.len();
    for _ in 1..count.div_ceil(MAX_DESCRIPTORS) {
        connection.wait()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    let tcp = (0..parts.tcp)
        .map(|_| Ok(connection.descriptor()?.into()))
        .collect::<io::Result<_>>()?;
    let mut listeners = |ports: &[u16]| {
        let listener = |&port: &u16| {
            Ok(UdpListener {
                port,
                socket: connection.descriptor()?.into(),
            })
        };
        ports.iter().map(listener).collect::<io::Result<_>>()
    };
    Ok(NetnsListeners {
        tcp,
        dns: listeners(&parts.dns)?,
        udp: listeners(&parts.udp)?,
    })
}

fn receive(connection: &mut Connection) -> io::Result<SpawnerAnswer> {
    let body = connection.wait()?.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "spawner has exited unexpectedly",
        )
    })?;
    SpawnerAnswer::decode(&body)
}
