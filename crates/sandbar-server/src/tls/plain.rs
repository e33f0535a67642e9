//! Response to plaintext HTTP on a TLS port.

use std::io;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const TEXT: &str = "this port speaks TLS: use https:// in place of http://\n";

/// Bytes of the request that are read before the connection is closed.
const MAX_DRAIN_BYTES: u64 = 64 << 10;

/// Answers any plaintext request with 400 and the hint to use `https://`.
pub(super) async fn answer_plaintext(mut stream: TcpStream) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{TEXT}",
        TEXT.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing a socket with unread input sends a reset, and the client would lose the response.
    tokio::io::copy(&mut stream.take(MAX_DRAIN_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}
