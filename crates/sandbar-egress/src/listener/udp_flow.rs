//! Forwards datagrams to the UDP ports that the policy opens.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use sandbar_core::{MutexExt as _, NetworkProtocol, Transport};
use sandbar_netns::UdpListener;
use tokio::{net::UdpSocket, sync::OwnedSemaphorePermit, time::timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    DatagramSocket, Tasks,
    datagram_socket::{Datagram, MAX_DATAGRAM_BYTES},
};
use crate::{
    egress_context::EgressContext,
    session_egress::{Attempt, SessionEgress},
    traffic::Direction,
};

/// A flow without datagrams for this long is closed.
const FLOW_IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Open flows of a session.
const MAX_FLOWS: usize = 256;

/// Denied destinations that are remembered, so that each is recorded once a minute and not for
/// every datagram.
const MAX_REFUSED: usize = 1024;

/// UDP flows of one session.
#[derive(Debug)]
pub(crate) struct UdpFlows {
    session: Arc<SessionEgress>,
    tasks: Tasks,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Current sockets, by port and family. A flow sends answers through the current socket of its
    /// port, which may have been reopened since the flow began.
    ports: HashMap<(u16, bool), Arc<DatagramSocket>>,
    /// Stops the tasks that read from `ports`.
    reading: Option<CancellationToken>,
    flows: HashMap<Ends, Arc<Flow>>,
    refused: HashMap<SocketAddr, Instant>,
}

/// Source and destination.
type Ends = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Flow {
    upstream: UdpSocket,
    used: Mutex<Instant>,
    /// Counts as a connection of the host.
    _permit: OwnedSemaphorePermit,
}

impl Flow {
    fn touch(&self) {
        *self.used.lock_unpoisoned() = Instant::now();
    }

    fn end(&self) -> Instant {
        *self.used.lock_unpoisoned() + FLOW_IDLE_TIMEOUT
    }
}

impl UdpFlows {
    pub(crate) fn new(session: Arc<SessionEgress>, tasks: Tasks) -> Arc<Self> {
        Arc::new(Self {
            session,
            tasks,
            state: Mutex::default(),
        })
    }

    /// Replaces the ports that are served. Flows of ports that stay open continue.
    pub(crate) fn set_ports(self: &Arc<Self>, listeners: Vec<UdpListener>) {
        let reading = self.tasks.part();
        let mut state = self.state();
        if let Some(before) = state.reading.replace(reading.clone()) {
            before.cancel();
        }
        state.ports.clear();
        for listener in listeners {
            match DatagramSocket::new(listener) {
                Ok(datagrams) => {
                    let datagrams = Arc::new(datagrams);
                    state.ports.insert(datagrams.kind(), Arc::clone(&datagrams));
                    self.tasks
                        .spawn_until(&reading, Arc::clone(self).read(datagrams));
                }
                Err(error) => tracing::warn!(%error, "could not serve a UDP port of a session"),
            }
        }
    }

    async fn read(self: Arc<Self>, datagrams: Arc<DatagramSocket>) {
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        loop {
            let datagram = datagrams.next(&mut buffer).await;
            self.forward(&buffer[..datagram.length], datagram).await;
        }
    }

    async fn forward(self: &Arc<Self>, bytes: &[u8], datagram: Datagram) {
        let ends = (datagram.from, datagram.destination);
        let known = self.state().flows.get(&ends).cloned();
        let flow = match known {
            Some(flow) => flow,
            None => match self.open(ends).await {
                Some(flow) => flow,
                None => return,
            },
        };
        flow.touch();
        self.moved(Direction::Sent, bytes.len(), flow.upstream.send(bytes))
            .await;
    }

    /// Sends a datagram if the rate limit has tokens for all of it; drops it otherwise, as a
    /// congested network would.
    async fn moved<T>(
        &self,
        direction: Direction,
        length: usize,
        send: impl Future<Output = io::Result<T>>,
    ) {
        let meter = self.session.meter();
        let Ok(reserved) = meter.reserve(length) else {
            return;
        };
        let is_sent = reserved == length && send.await.is_ok();
        meter.moved(direction, reserved, if is_sent { length } else { 0 });
    }

    /// Opens a new flow if the rules and limits permit it.
    async fn open(self: &Arc<Self>, ends: Ends) -> Option<Arc<Flow>> {
        let (_, destination) = ends;
        let rules = self.session.rules();
        let unnamed = self.session.unnamed(&rules, Transport::Udp, destination);
        let attempt = Attempt {
            host: unnamed.host.map(Into::into),
            ..Attempt::at(NetworkProtocol::Udp, destination)
        };
        if !unnamed.verdict.is_allowed() {
            self.refuse(attempt, destination, unnamed.verdict.reason());
            return None;
        }
        if let Some(host) = self.session.denied_host_at(&rules, destination).await {
            self.refuse(
                attempt,
                destination,
                &format!("address of the denied host `{host}`"),
            );
            return None;
        }
        if self.state().flows.len() >= MAX_FLOWS {
            self.refuse(attempt, destination, "limit of UDP flows reached");
            return None;
        }
        let Some(permit) = self.session.connection_permit() else {
            self.refuse(attempt, destination, "connection limit of the host reached");
            return None;
        };
        let upstream = match connect(destination).await {
            Ok(upstream) => upstream,
            Err(error) => {
                self.session.allow_unreached(
                    attempt,
                    unnamed.verdict.reason(),
                    &error.kind().to_string(),
                );
                return None;
            }
        };
        self.session.allow(attempt, unnamed.verdict.reason());
        let flow = Arc::new(Flow {
            upstream,
            used: Mutex::new(Instant::now()),
            _permit: permit,
        });
        self.state().flows.insert(ends, Arc::clone(&flow));
        self.tasks
            .spawn(Arc::clone(self).answer(ends, Arc::clone(&flow)));
        Some(flow)
    }

    fn refuse(&self, attempt: Attempt, destination: SocketAddr, reason: &str) {
        let now = Instant::now();
        {
            let mut state = self.state();
            let recently = |at: &Instant| now.saturating_duration_since(*at) < FLOW_IDLE_TIMEOUT;
            if state.refused.get(&destination).is_some_and(recently) {
                return;
            }
            if state.refused.len() >= MAX_REFUSED {
                state.refused.clear();
            }
            state.refused.insert(destination, now);
        }
        self.session.deny(attempt, reason);
    }

    /// Forwards answers until the flow is idle or its port is closed.
    async fn answer(self: Arc<Self>, ends: Ends, flow: Arc<Flow>) {
        let (session, destination) = ends;
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        loop {
            match timeout_at(flow.end().into(), flow.upstream.recv(&mut buffer)).await {
                Ok(Ok(length)) => {
                    flow.touch();
                    let Some(datagrams) = self.port_of(destination) else {
                        break;
                    };
                    let answer = datagrams.send(&buffer[..length], session, destination);
                    self.moved(Direction::Received, length, answer).await;
                }
                // An ICMP "port unreachable" came back. The program notices the missing answer.
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) if flow.end() > Instant::now() => {}
                Ok(Err(_)) | Err(_) => break,
            }
        }
        self.state().flows.remove(&ends);
    }

    fn port_of(&self, destination: SocketAddr) -> Option<Arc<DatagramSocket>> {
        self.state()
            .ports
            .get(&(destination.port(), destination.is_ipv4()))
            .cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock_unpoisoned()
    }
}

async fn connect(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = if to.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(to).await?;
    // `try_send` drops the first datagram if the runtime has not yet seen the socket writable.
    socket.writable().await?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::listener::tests::Session;
    use sandbar_core::NetworkVerdict::{Allow, Deny};

    #[tokio::test]
    async fn datagrams_to_open_ports_are_forwarded_and_answered() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let there = server.local_addr().unwrap();
        let session = Session::new(&format!("allow=udp://127.0.0.1:{}", there.port()));
        let tasks = Tasks::new(Handle::current());
        let flows = UdpFlows::new(Arc::clone(&session.egress), tasks.clone());
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        flows.set_ports(vec![UdpListener {
            port: there.port(),
            socket,
        }]);

        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let datagram = Datagram {
            length: 4,
            from: client.local_addr().unwrap(),
            destination: there,
        };
        let mut buffer = [0; 16];
        for _ in 0..2 {
            flows.forward(b"ping", datagram).await;
            let (length, from) = server.recv_from(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..length], b"ping");
            server.send_to(b"pong", from).await.unwrap();
            let length = client.recv(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..length], b"pong");
        }
        // One flow, decided once; another destination is refused, and recorded once.
        let elsewhere = Datagram {
            destination: "127.0.0.1:9".parse().unwrap(),
            ..datagram
        };
        flows.forward(b"ping", elsewhere).await;
        flows.forward(b"ping", elsewhere).await;
        let decided: Vec<_> = session
            .decisions()
            .into_iter()
            .map(|(verdict, ..)| verdict)
            .collect();
        assert_eq!(decided, [Allow, Deny]);
        tasks.cancel();
        tasks.ended().await;
    }
}
