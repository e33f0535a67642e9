//! Authoritative name server for one zone, over UDP and TCP on one port.

use std::{future::ready, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, UdpSocket},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

use super::{
    query::{MAX_DATAGRAM_BYTES, MAX_STREAM_BYTES},
    stream::answer_stream,
    zone::Zone,
};

/// Open TCP connections. More wait in the backlog.
const MAX_CONNECTIONS: usize = 64;

/// Delay after a failed system call.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Attempts to find a port that is free for both UDP and TCP.
const MAX_BIND_ATTEMPTS: usize = 16;

/// Name server for a zone. Stops when dropped.
#[derive(Debug)]
pub struct NameServer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl NameServer {
    /// Starts the server; port 0 selects a free port.
    pub async fn start(listen: SocketAddr, zone: Zone) -> io::Result<Self> {
        let (socket, listener) = bind(listen).await?;
        let address = socket.local_addr()?;
        let zone = Arc::new(zone);
        let mut tasks = JoinSet::new();
        tasks.spawn(answer_datagrams(socket, Arc::clone(&zone)));
        tasks.spawn(answer_connections(listener, zone));
        Ok(Self {
            address,
            _tasks: tasks,
        })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn bind(listen: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let mut tries = 0;
    loop {
        let socket = UdpSocket::bind(listen).await?;
        match TcpListener::bind(socket.local_addr()?).await {
            Ok(listener) => return Ok((socket, listener)),
            Err(_) if listen.port() == 0 && tries < MAX_BIND_ATTEMPTS => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

async fn answer_datagrams(socket: UdpSocket, zone: Arc<Zone>) {
    let mut buffer = [0; 4096];
    loop {
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "could not receive a DNS query");
                sleep(RETRY_DELAY).await;
                continue;
            }
        };
        if let Some(message) = zone.answer(&buffer[..length], MAX_DATAGRAM_BYTES)
            && let Err(error) = socket.send_to(&message, from).await
        {
            tracing::debug!(%error, "could not send a DNS answer");
        }
    }
}

async fn answer_connections(listener: TcpListener, zone: Arc<Zone>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let zone = Arc::clone(&zone);
                connections.spawn(async move {
                    answer_stream(stream, |query| ready(zone.answer(&query, MAX_STREAM_BYTES)))
                        .await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "could not accept a DNS connection");
                sleep(RETRY_DELAY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;

    /// Query of a stub resolver: recursion desired, one question, EDNS.
    const QUERY: &[u8] =
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x0849983-ab\x03sbx\x04test\0\0\x01\0\x01\
        \0\0\x29\x04\xd0\0\0\0\0\0\0";
    const ANSWER: &[u8] =
        b"\x12\x34\x85\0\0\x01\0\x01\0\0\0\x01\x0849983-ab\x03sbx\x04test\0\0\x01\0\x01\
        \xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\0\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";

    async fn server() -> NameServer {
        let zone = Zone::new(
            &"sbx.test".parse().unwrap(),
            vec![Ipv4Addr::LOCALHOST.into()],
        );
        NameServer::start((Ipv4Addr::LOCALHOST, 0).into(), zone)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn query_over_udp_is_answered() {
        let server = server().await;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.connect(server.address()).await.unwrap();
        // Messages that are not queries are ignored.
        socket.send(b"nonsense").await.unwrap();
        socket.send(QUERY).await.unwrap();
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], ANSWER);
    }

    #[tokio::test]
    async fn queries_over_one_tcp_connection_are_answered() {
        let server = server().await;
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        for _ in 0..2 {
            stream
                .write_u16(QUERY.len().try_into().unwrap())
                .await
                .unwrap();
            stream.write_all(QUERY).await.unwrap();
            let mut answer = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, ANSWER);
        }
    }
}
