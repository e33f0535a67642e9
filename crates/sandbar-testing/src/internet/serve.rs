//! Serving every socket.

use std::{net::SocketAddr, sync::Arc};

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_rustls::{LazyConfigAcceptor, rustls, rustls::server::Acceptor, server::TlsStream};

use super::{
    dns_server,
    heard::Log,
    pages::Pages,
    plain,
    services::{Socket, Speaks},
    web,
    zone::Zone,
};

/// Context of every server.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    pub(super) pages: Arc<Pages>,
    pub(super) zone: Arc<Zone>,
    pub(super) log: Arc<Log>,
    pub(super) tls: Arc<rustls::ServerConfig>,
}

impl Servers {
    /// Starts serving; the tasks end with the runtime.
    pub(super) fn start(&self, sockets: Vec<Socket>) {
        for socket in sockets {
            let servers = self.clone();
            match socket {
                Socket::Tcp(listener, speaks) => {
                    let listener = TcpListener::from_std(listener).unwrap();
                    tokio::spawn(async move {
                        while let Ok((stream, _)) = listener.accept().await {
                            let servers = servers.clone();
                            tokio::spawn(async move { servers.connection(stream, speaks).await });
                        }
                    });
                }
                Socket::Udp(socket, speaks) => {
                    let socket = UdpSocket::from_std(socket).unwrap();
                    tokio::spawn(async move { servers.datagrams(socket, speaks).await });
                }
            }
        }
    }

    async fn connection(self, stream: TcpStream, speaks: Speaks) {
        let Ok(at) = stream.local_addr() else { return };
        self.log.write(at, None, "connected");
        match speaks {
            Speaks::Http => web::serve(stream, at, self).await,
            Speaks::Https => {
                if let Some(stream) = self.secured(stream, at).await {
                    web::serve(stream, at, self).await;
                }
            }
            Speaks::Banner => plain::banner(stream, at, &self.log).await,
            Speaks::DnsTls => {
                if let Some(stream) = self.secured(stream, at).await {
                    dns_server::tcp(stream, at, &self).await;
                }
            }
            Speaks::DnsTcp => dns_server::tcp(stream, at, &self).await,
            Speaks::Echo | Speaks::DnsUdp | Speaks::EchoUdp => {
                plain::echo(stream, at, &self.log).await;
            }
        }
    }

    /// TLS; the name in the greeting is written down, whatever becomes of the rest.
    async fn secured(&self, stream: TcpStream, at: SocketAddr) -> Option<TlsStream<TcpStream>> {
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream)
            .await
            .ok()?;
        let name = start.client_hello().server_name().map(str::to_owned);
        self.log.write(at, name.as_deref(), "a greeting of TLS");
        start.into_stream(Arc::clone(&self.tls)).await.ok()
    }

    async fn datagrams(self, socket: UdpSocket, speaks: Speaks) {
        match speaks {
            Speaks::DnsUdp => dns_server::udp(socket, &self).await,
            _ => plain::echo_datagrams(socket, &self.log).await,
        }
    }
}
