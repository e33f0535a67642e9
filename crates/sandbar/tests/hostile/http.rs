//! HTTP/1.1 as an attacker speaks it: by hand, and without reading when that hurts.

use std::{fmt::Write as _, io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// Bytes of an answer that are read.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// Time for a whole answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// An answer. Status 0 is a connection that was closed without one.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Head and body as they came.
    pub(crate) text: String,
}

/// Writes the head of a request.
pub(crate) fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    head
}

/// Sends these bytes on a connection of its own, which stays open. Errors of sending are those of a
/// host that has closed the connection.
pub(crate) async fn send(address: SocketAddr, bytes: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let _ = stream.write_all(bytes).await;
    Ok(stream)
}

/// Reads an answer to its end; the connection must be one that the host closes.
pub(crate) async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let mut limited = (&mut stream).take(MAX_ANSWER_BYTES);
    let ended = timeout(ANSWER_TIMEOUT, limited.read_to_end(&mut bytes)).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        ended.is_ok(),
        "no end of an answer in {ANSWER_TIMEOUT:?}: {text:.200}"
    );
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    Answer {
        status: status.unwrap_or(0),
        text,
    }
}

/// Makes a request and reads its answer.
pub(crate) async fn request(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let length = body.len().to_string();
    let mut all = vec![("connection", "close"), ("content-length", length.as_str())];
    all.extend(headers);
    let stream = TcpStream::connect(address).await;
    let Ok(mut stream) = stream else {
        return Answer {
            status: 0,
            text: String::new(),
        };
    };
    let whole = [head(method, target, &all).as_bytes(), body].concat();
    // The host may answer and close before it has read the whole body.
    let sent = timeout(ANSWER_TIMEOUT, stream.write_all(&whole)).await;
    assert!(sent.is_ok(), "a request was not read in {ANSWER_TIMEOUT:?}");
    read(stream).await
}

/// Encodes a message of a Connect stream: flags, length, JSON.
pub(crate) fn frame(message: &serde_json::Value) -> Vec<u8> {
    let text = message.to_string();
    let length = u32::try_from(text.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], text.as_bytes()].concat()
}
