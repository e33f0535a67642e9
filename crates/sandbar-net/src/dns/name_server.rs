//! A name server for one zone: datagrams and connections on one port.

use std::{future::ready, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, UdpSocket},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

use super::{
    exchange::{MOST_IN_DATAGRAM, MOST_IN_STREAM},
    stream::answer_stream,
    zone::Zone,
};

/// Connections at once. More wait.
const MOST_CONNECTIONS: usize = 64;

/// Between attempts when the system refuses something for now.
const PAUSE: Duration = Duration::from_millis(50);

/// A free port for datagrams may be taken for connections: how often another is tried.
const MOST_TRIES: usize = 16;

/// Answers for a zone until it is dropped.
#[derive(Debug)]
pub struct NameServer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl NameServer {
    /// Answers on an address; port 0 takes a free one.
    pub async fn start(listen: SocketAddr, zone: Zone) -> io::Result<Self> {
        let (socket, listener) = bind(listen).await?;
        let address = socket.local_addr()?;
        let zone = Arc::new(zone);
        let mut tasks = JoinSet::new();
        tasks.spawn(answer_datagrams(socket, Arc::clone(&zone)));
        tasks.spawn(answer_connections(listener, zone));
        Ok(Self { address, _tasks: tasks })
    }

    /// The address it really answers on.
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
            Err(_) if listen.port() == 0 && tries < MOST_TRIES => tries += 1,
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
                tracing::debug!(%error, "a question for a name did not arrive");
                sleep(PAUSE).await;
                continue;
            }
        };
        if let Some(message) = zone.answer(&buffer[..length], MOST_IN_DATAGRAM)
            && let Err(error) = socket.send_to(&message, from).await
        {
            tracing::debug!(%error, "an answer about a name was not sent");
        }
    }
}

async fn answer_connections(listener: TcpListener, zone: Arc<Zone>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let zone = Arc::clone(&zone);
                connections.spawn(async move {
                    answer_stream(stream, |query| ready(zone.answer(&query, MOST_IN_STREAM))).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection for names was not accepted");
                sleep(PAUSE).await;
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

    /// What a stub resolver asks, byte for byte: recursion wanted, one question, EDNS.
    const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x0849983-ab\x03sbx\x04test\0\0\x01\0\x01\
        \0\0\x29\x04\xd0\0\0\0\0\0\0";
    const ANSWER: &[u8] = b"\x12\x34\x85\0\0\x01\0\x01\0\0\0\x01\x0849983-ab\x03sbx\x04test\0\0\x01\0\x01\
        \xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\0\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";

    async fn server() -> NameServer {
        let zone = Zone::new(&"sbx.test".parse().unwrap(), vec![Ipv4Addr::LOCALHOST.into()]);
        NameServer::start((Ipv4Addr::LOCALHOST, 0).into(), zone).await.unwrap()
    }

    #[tokio::test]
    async fn a_resolver_is_answered_by_datagram() {
        let server = server().await;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.connect(server.address()).await.unwrap();
        // What is no query is passed over.
        socket.send(b"nonsense").await.unwrap();
        socket.send(QUERY).await.unwrap();
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], ANSWER);
    }

    #[tokio::test]
    async fn a_resolver_is_answered_by_connection_as_often_as_it_asks() {
        let server = server().await;
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        for _ in 0..2 {
            stream.write_u16(QUERY.len().try_into().unwrap()).await.unwrap();
            stream.write_all(QUERY).await.unwrap();
            let mut answer = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, ANSWER);
        }
    }
}
