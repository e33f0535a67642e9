//! Servers on this machine's loopback that boxes of the family `network` may dial by name, through
//! the egress gateway.

use std::net::Ipv4Addr;

use sandbar_core::{Destination, NetworkPolicy};
use sandbar_testing::name_server::{TestNameServer, leads};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Ports of the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    /// Accepts, and then neither reads nor writes.
    pub(crate) silent: u16,
    pub(crate) echo: u16,
    /// Nothing listens here.
    pub(crate) closed: u16,
}

/// Name server and servers, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Internet {
    names: TestNameServer,
    ports: Ports,
    _servers: JoinSet<()>,
}

impl Internet {
    pub(crate) async fn start() -> Self {
        let names = TestNameServer::with(vec![leads("ok.example", "127.0.0.1", 60)]).await;
        let mut servers = JoinSet::new();
        let (silent, echo) = (listen().await, listen().await);
        let closed = listen().await;
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let ports = Ports {
            silent: port(&silent),
            echo: port(&echo),
            closed: port(&closed),
        };
        drop(closed);
        servers.spawn(async move {
            let mut kept = Vec::new();
            while let Ok((stream, _)) = silent.accept().await {
                kept.push(stream);
            }
        });
        servers.spawn(async move {
            let mut echoing = JoinSet::new();
            while let Ok((stream, _)) = echo.accept().await {
                echoing.spawn(echo_back(stream));
            }
        });
        Self {
            names,
            ports,
            _servers: servers,
        }
    }

    /// Returns the value of `SANDBAR_DNS_SERVERS`.
    pub(crate) fn dns_servers(&self) -> String {
        format!("[\"{}\"]", self.names.address)
    }

    pub(crate) fn ports(&self) -> Ports {
        self.ports
    }

    /// Returns a policy that opens the servers and nothing else.
    pub(crate) fn policy() -> NetworkPolicy {
        let ok: Destination = "ok.example".parse().unwrap();
        NetworkPolicy {
            private_ranges: vec!["127.0.0.0/8".parse().unwrap()],
            ..NetworkPolicy::allowing([ok])
        }
    }
}

async fn listen() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()
}

async fn echo_back(mut stream: TcpStream) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count) = stream.read(&mut buffer).await {
        if count == 0 || stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
