//! The host's handle on the spawner.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use sandbar_netns::{GateSockets, UdpGate};

use crate::{
    protocol::{Connection, GateOrder, GateParts, MOST_DESCRIPTORS, SpawnerAnswer, SpawnerRequest},
    role,
};

#[derive(Debug)]
pub(crate) struct Spawner {
    /// `None` once it was told to end.
    connection: Mutex<Option<Connection>>,
    process: Mutex<Child>,
    /// Why it cannot make boxes with mounts of their own, when it cannot.
    pub(crate) limited: Option<io::Error>,
}

impl Spawner {
    pub(crate) fn start() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let process = Command::new(role::program()?)
            .arg0(role::SPAWNER)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()?;
        let mut connection = Connection::new(ours.into());
        let limited = match receive(&mut connection)? {
            SpawnerAnswer::Hello { errno: 0 } => None,
            SpawnerAnswer::Hello { errno } => Some(io::Error::from_raw_os_error(errno)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self { connection: Mutex::new(Some(connection)), process: Mutex::new(process), limited })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    /// A user namespace that maps owners `0..65536` to those from `first`.
    pub(crate) fn make_owners(&self, first: u32) -> io::Result<OwnedFd> {
        self.ask(&SpawnerRequest::Owners { first }, &[], |answer, connection| match answer {
            SpawnerAnswer::Owners => connection.descriptor(),
            _ => Err(io::ErrorKind::InvalidData.into()),
        })
    }

    /// A network namespace with nothing but its loopback.
    pub(crate) fn network(&self) -> io::Result<OwnedFd> {
        self.ask(&SpawnerRequest::Network, &[], |answer, connection| match answer {
            SpawnerAnswer::Network => connection.descriptor(),
            _ => Err(io::ErrorKind::InvalidData.into()),
        })
    }

    /// Finds out whether [`open_gate`](Self::open_gate) works.
    pub(crate) fn try_gate(&self) -> io::Result<()> {
        self.ask(&SpawnerRequest::TryGate, &[], |answer, _| match answer {
            SpawnerAnswer::GateWorks => Ok(()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        })
    }

    /// Opens the gate of a network in a user namespace of the caller's.
    pub(crate) fn open_gate(&self, order: GateOrder, namespaces: &[OwnedFd; 2]) -> io::Result<GateSockets> {
        let [user, network] = namespaces.each_ref().map(AsFd::as_fd);
        self.ask(&SpawnerRequest::OpenGate(order), &[user, network], |answer, connection| match answer {
            SpawnerAnswer::Gate(parts) => receive_gate(&parts, connection),
            _ => Err(io::ErrorKind::InvalidData.into()),
        })
    }

    /// Orders a box that has the caller as its only user; returns its user namespace and its network.
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

    /// Orders a box; over its own sockets it tells whether it stands.
    pub(crate) fn order(&self, request: &SpawnerRequest, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let body = request.encode();
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.as_ref().ok_or(io::ErrorKind::NotConnected)?.send(&body, descriptors)
    }

    fn ask<T>(
        &self,
        request: &SpawnerRequest,
        descriptors: &[BorrowedFd<'_>],
        understand: impl FnOnce(SpawnerAnswer, &mut Connection) -> io::Result<T>,
    ) -> io::Result<T> {
        let body = request.encode();
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = connection.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        connection.send(&body, descriptors)?;
        match receive(connection)? {
            SpawnerAnswer::Failed { step, errno } => {
                let cause = io::Error::from_raw_os_error(errno);
                Err(io::Error::new(cause.kind(), format!("{}: {cause}", step.to_string_lossy())))
            }
            answer => understand(answer, connection),
        }
    }

    /// Ends the spawner and waits for it. Boxes go on until their own sockets close.
    pub(crate) fn end(&self) {
        drop(self.connection.lock().unwrap_or_else(PoisonError::into_inner).take());
        let _ = self.process.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes the sockets that came with an answer, and those that come after it.
fn receive_gate(parts: &GateParts, connection: &mut Connection) -> io::Result<GateSockets> {
    let count = usize::from(parts.tcp) + parts.dns.len() + parts.udp.len();
    for _ in 1..count.div_ceil(MOST_DESCRIPTORS) {
        connection.wait()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    let tcp = (0..parts.tcp).map(|_| Ok(connection.descriptor()?.into())).collect::<io::Result<_>>()?;
    let mut gates = |ports: &[u16]| {
        let gate = |&port: &u16| Ok(UdpGate { port, socket: connection.descriptor()?.into() });
        ports.iter().map(gate).collect::<io::Result<_>>()
    };
    Ok(GateSockets { tcp, dns: gates(&parts.dns)?, udp: gates(&parts.udp)? })
}

fn receive(connection: &mut Connection) -> io::Result<SpawnerAnswer> {
    let body = connection
        .wait()?
        .ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the spawner has ended unexpectedly"))?;
    SpawnerAnswer::decode(&body)
}
