//! Datagrams to ports the policy opens.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sandbar_core::{NetworkProtocol, Transport};
use sandbar_netns::UdpGate;
use tokio::{net::UdpSocket, sync::OwnedSemaphorePermit, time::timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    GateDatagrams, Tasks,
    datagrams::{Datagram, MOST_DATAGRAM},
};
use crate::{
    http::Outside,
    session_gate::{Attempt, SessionGate},
    traffic::Direction,
};

/// A flow nobody uses for this long is forgotten.
const IDLE: Duration = Duration::from_mins(1);

/// Flows of a session at once.
const MOST_FLOWS: usize = 256;

/// Refused destinations that are remembered, so that each is recorded once a minute and not once a datagram.
const MOST_REFUSED: usize = 1024;

/// The datagrams of one session.
#[derive(Debug)]
pub(crate) struct UdpFlows {
    gate: Arc<SessionGate>,
    tasks: Tasks,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The sockets there are now. A flow answers through the one its port has, also when that was opened again.
    ports: HashMap<(u16, bool), Arc<GateDatagrams>>,
    /// Ends the reading from `ports`.
    reading: Option<CancellationToken>,
    flows: HashMap<Ends, Arc<Flow>>,
    refused: HashMap<SocketAddr, Instant>,
}

/// From whom and to where.
type Ends = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Flow {
    upstream: UdpSocket,
    used: Mutex<Instant>,
    /// Among the connections of the whole host.
    _place: OwnedSemaphorePermit,
}

impl Flow {
    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn end(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) + IDLE
    }
}

impl UdpFlows {
    pub(crate) fn new(gate: Arc<SessionGate>, tasks: Tasks) -> Arc<Self> {
        Arc::new(Self { gate, tasks, state: Mutex::default() })
    }

    /// Serves these ports instead of those before. Flows go on where their port is still open.
    pub(crate) fn set_ports(self: &Arc<Self>, gates: Vec<UdpGate>) {
        let reading = self.tasks.part();
        let mut state = self.state();
        if let Some(before) = state.reading.replace(reading.clone()) {
            before.cancel();
        }
        state.ports.clear();
        for gate in gates {
            match GateDatagrams::new(gate) {
                Ok(datagrams) => {
                    let datagrams = Arc::new(datagrams);
                    state.ports.insert(datagrams.kind(), Arc::clone(&datagrams));
                    self.tasks.spawn_until(&reading, Arc::clone(self).read(datagrams));
                }
                Err(error) => tracing::warn!(%error, "a UDP port of a gate cannot be served"),
            }
        }
    }

    async fn read(self: Arc<Self>, datagrams: Arc<GateDatagrams>) {
        let mut buffer = vec![0; MOST_DATAGRAM];
        loop {
            let datagram = datagrams.next(&mut buffer).await;
            self.forward(&buffer[..datagram.length], datagram).await;
        }
    }

    async fn forward(self: &Arc<Self>, bytes: &[u8], datagram: Datagram) {
        let ends = (datagram.from, datagram.meant_for);
        let known = self.state().flows.get(&ends).cloned();
        let flow = match known {
            Some(flow) => flow,
            None => match self.open(ends).await {
                Some(flow) => flow,
                None => return,
            },
        };
        flow.touch();
        self.moved(Direction::Sent, bytes.len(), flow.upstream.send(bytes)).await;
    }

    /// Moves a datagram if the limit has room for all of it. Networks lose datagrams, and programs know.
    async fn moved<T>(&self, direction: Direction, length: usize, send: impl Future<Output = io::Result<T>>) {
        let meter = self.gate.meter();
        let Ok(reserved) = meter.reserve(length) else { return };
        let is_sent = reserved == length && send.await.is_ok();
        meter.moved(direction, reserved, if is_sent { length } else { 0 });
    }

    /// A new flow, if it may be.
    async fn open(self: &Arc<Self>, ends: Ends) -> Option<Arc<Flow>> {
        let (_, meant_for) = ends;
        let rules = self.gate.rules();
        let unnamed = self.gate.unnamed(&rules, Transport::Udp, meant_for);
        let attempt = Attempt { host: unnamed.host.map(Into::into), ..Attempt::at(NetworkProtocol::Udp, meant_for) };
        if !unnamed.verdict.is_allowed() {
            self.refuse(attempt, meant_for, unnamed.verdict.reason());
            return None;
        }
        if let Some(host) = self.gate.denied_host_at(&rules, meant_for).await {
            self.refuse(attempt, meant_for, &format!("an address of `{host}`, which is denied"));
            return None;
        }
        if self.state().flows.len() >= MOST_FLOWS {
            self.refuse(attempt, meant_for, "too many UDP flows at once");
            return None;
        }
        let Some(place) = self.gate.place() else {
            self.refuse(attempt, meant_for, "more connections at once than the host has places for");
            return None;
        };
        let upstream = match connect(meant_for).await {
            Ok(upstream) => upstream,
            Err(error) => {
                self.gate.allow_in_vain(attempt, unnamed.verdict.reason(), &error.kind().to_string());
                return None;
            }
        };
        self.gate.allow(attempt, unnamed.verdict.reason());
        let flow = Arc::new(Flow { upstream, used: Mutex::new(Instant::now()), _place: place });
        self.state().flows.insert(ends, Arc::clone(&flow));
        self.tasks.spawn(Arc::clone(self).answer(ends, Arc::clone(&flow)));
        Some(flow)
    }

    fn refuse(&self, attempt: Attempt, meant_for: SocketAddr, reason: &str) {
        let now = Instant::now();
        {
            let mut state = self.state();
            let recently = |at: &Instant| now.saturating_duration_since(*at) < IDLE;
            if state.refused.get(&meant_for).is_some_and(recently) {
                return;
            }
            if state.refused.len() >= MOST_REFUSED {
                state.refused.clear();
            }
            state.refused.insert(meant_for, now);
        }
        self.gate.deny(attempt, reason);
    }

    /// Brings answers back until nobody uses the flow, or its port is closed.
    async fn answer(self: Arc<Self>, ends: Ends, flow: Arc<Flow>) {
        let (session, meant_for) = ends;
        let mut buffer = vec![0; MOST_DATAGRAM];
        loop {
            match timeout_at(flow.end().into(), flow.upstream.recv(&mut buffer)).await {
                Ok(Ok(length)) => {
                    flow.touch();
                    let Some(datagrams) = self.port_of(meant_for) else { break };
                    let answer = datagrams.send(&buffer[..length], session, meant_for);
                    self.moved(Direction::Received, length, answer).await;
                }
                // Nobody listens there just now; the program finds out by hearing nothing.
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) if flow.end() > Instant::now() => {}
                Ok(Err(_)) | Err(_) => break,
            }
        }
        self.state().flows.remove(&ends);
    }

    fn port_of(&self, meant_for: SocketAddr) -> Option<Arc<GateDatagrams>> {
        self.state().ports.get(&(meant_for.port(), meant_for.is_ipv4())).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr =
        if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(to).await?;
    // Until the runtime has seen that it is writable, the first datagram would be lost.
    socket.writable().await?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use crate::gate::tests::Session;
    use sandbar_core::NetworkVerdict::{Allow, Deny};

    #[tokio::test]
    async fn datagrams_go_to_open_ports_and_answers_come_back() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let there = server.local_addr().unwrap();
        let session = Session::new(&format!("allow=udp://127.0.0.1:{}", there.port()));
        let tasks = Tasks::new(Handle::current());
        let flows = UdpFlows::new(Arc::clone(&session.gate), tasks.clone());
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        flows.set_ports(vec![UdpGate { port: there.port(), socket }]);

        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let datagram = Datagram { length: 4, from: client.local_addr().unwrap(), meant_for: there };
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
        let elsewhere = Datagram { meant_for: "127.0.0.1:9".parse().unwrap(), ..datagram };
        flows.forward(b"ping", elsewhere).await;
        flows.forward(b"ping", elsewhere).await;
        let decided: Vec<_> = session.decisions().into_iter().map(|(verdict, ..)| verdict).collect();
        assert_eq!(decided, [Allow, Deny]);
        tasks.cancel();
        tasks.ended().await;
    }
}
