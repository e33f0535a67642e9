//! Echo servers.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
};

use super::heard::Log;

pub(super) const BANNER: &[u8] = b"SSH-2.0-internet_of_a_test\r\n";

/// Sends its name first.
pub(super) async fn banner(mut stream: TcpStream, at: SocketAddr, log: &Log) {
    if stream.write_all(BANNER).await.is_ok() {
        echo(stream, at, log).await;
    }
}

pub(super) async fn echo(mut stream: TcpStream, at: SocketAddr, log: &Log) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        // Limited, since the throughput benchmark would fill the log.
        let words = &buffer[..length.min(512)];
        log.write(at, None, String::from_utf8_lossy(words));
        if stream.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

pub(super) async fn echo_datagrams(socket: UdpSocket, log: &Log) {
    let Ok(at) = socket.local_addr() else { return };
    let mut buffer = vec![0; 2048];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        log.write(at, None, String::from_utf8_lossy(&buffer[..length]));
        let _ = socket.send_to(&buffer[..length], from).await;
    }
}
