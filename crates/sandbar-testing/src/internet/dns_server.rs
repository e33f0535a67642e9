//! DNS by UDP, TCP and whatever looks like TCP.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::UdpSocket,
};

use super::{dns_message, serve::Servers};

/// The answer to a message, after the question was written down.
pub(super) fn reply(message: &[u8], at: SocketAddr, servers: &Servers) -> Option<Vec<u8>> {
    let asked = dns_message::question(message)?;
    servers.log.write(
        at,
        Some(&asked.name),
        format!("a question of type {}", asked.kind),
    );
    (message.len() >= 12).then(|| dns_message::answer(message, &asked, &servers.zone))
}

pub(super) async fn udp(socket: UdpSocket, servers: &Servers) {
    let Ok(at) = socket.local_addr() else { return };
    let mut buffer = vec![0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        if let Some(reply) = reply(&buffer[..length], at, servers) {
            let _ = socket.send_to(&reply, from).await;
        }
    }
}

pub(super) async fn tcp(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    at: SocketAddr,
    servers: &Servers,
) {
    while let Ok(length) = stream.read_u16().await {
        let mut message = vec![0; usize::from(length)];
        if stream.read_exact(&mut message).await.is_err() {
            return;
        }
        let Some(reply) = reply(&message, at, servers) else {
            return;
        };
        let mut framed = u16::try_from(reply.len()).unwrap().to_be_bytes().to_vec();
        framed.extend(reply);
        if stream.write_all(&framed).await.is_err() {
            return;
        }
    }
}
