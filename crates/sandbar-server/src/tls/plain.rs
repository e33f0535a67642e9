//! An answer for those who forgot the `s` of `https`.

use std::io;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const TEXT: &str = "this port speaks TLS: use https:// in place of http://\n";

/// How much of a request is read before the connection is closed.
const MOST: u64 = 64 << 10;

/// Answers whatever was asked with the way in.
pub(super) async fn explain(mut stream: TcpStream) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{TEXT}",
        TEXT.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing with something unread would take the answer away from under its reader.
    tokio::io::copy(&mut stream.take(MOST), &mut tokio::io::sink()).await?;
    Ok(())
}
