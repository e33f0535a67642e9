//! Refuses connections of a session in the protocol that the client speaks.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::relay::reset_on_close;
use crate::refusal::Refusal;

/// Reason for denying a host whose TLS must be inspected, in a box that trusts no session CA.
pub(super) const NO_SESSION_CA: &str =
    "TLS inspection is required for this host, but the sandbox was created without a session CA";

/// Limit for sending the refusal to the client.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Fatal TLS alert `access_denied` in plain text. Every TLS version accepts it before keys are
/// negotiated.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Sends a TLS alert and closes.
pub(super) async fn refuse_tls(client: TcpStream) {
    send_and_close(client, &ACCESS_DENIED).await;
}

/// Answers a proxy request with an error status and a line of text, and closes.
pub(super) async fn refuse_proxy(client: TcpStream, host: &str, refusal: &Refusal) {
    let (status, verb) = if refusal.denied {
        ("403 Forbidden", "may")
    } else {
        ("502 Bad Gateway", "can")
    };
    let body = format!(
        "sandbar: {host} {verb} not be reached: {}\n",
        refusal.reason
    );
    send_and_close(client, response(status, &body).as_bytes()).await;
}

/// Answers a malformed proxy request.
pub(super) async fn refuse_bad_request(client: TcpStream, why: &str) {
    send_and_close(
        client,
        response("400 Bad Request", &format!("sandbar: {why}\n")).as_bytes(),
    )
    .await;
}

/// Resets a connection whose protocol has no error message.
pub(super) fn refuse_silently(client: TcpStream) {
    reset_on_close(&client);
    drop(client);
}

fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Sends a message and closes once the client has closed. Closing a socket with unread bytes resets
/// the connection, and the client would lose the message.
async fn send_and_close(mut client: TcpStream, message: &[u8]) {
    let send = async {
        client.write_all(message).await?;
        client.shutdown().await?;
        tokio::io::copy(
            &mut (&mut client).take(MAX_DISCARDED_BYTES),
            &mut tokio::io::sink(),
        )
        .await
    };
    // The client may have closed already.
    let _ = timeout(RESPONSE_TIMEOUT, send).await;
}

/// Bytes of a refused client that are read and discarded.
const MAX_DISCARDED_BYTES: u64 = 1024 * 1024;
