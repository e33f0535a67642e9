//! What a session's program is told when something may not be, or cannot be.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::relay::cut;
use crate::http::Refusal;

impl Refusal {
    /// The policy says no.
    pub(crate) const fn denied(reason: String) -> Self {
        Self { reason, denied: true }
    }

    /// It may be, and it cannot be.
    pub(crate) const fn unreachable(reason: String) -> Self {
        Self { reason, denied: false }
    }
}

/// How long a program may take to hear why it was refused.
const HEARING: Duration = Duration::from_secs(2);

/// A fatal alert of TLS 1.2 in clear text, which every version understands before keys are agreed on: `access_denied`.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Tells a TLS client that access was denied, and closes.
pub(super) async fn refuse_tls(client: TcpStream) {
    last_words(client, &ACCESS_DENIED).await;
}

/// Answers a proxy request with a status and a line of text, and closes.
pub(super) async fn refuse_proxy(client: TcpStream, host: &str, refusal: &Refusal) {
    let (status, verb) = if refusal.denied { ("403 Forbidden", "may") } else { ("502 Bad Gateway", "can") };
    let body = format!("sandbar: {host} {verb} not be reached: {}\n", refusal.reason);
    last_words(client, response(status, &body).as_bytes()).await;
}

/// Answers something that is no proxy request.
pub(super) async fn refuse_bad_request(client: TcpStream, why: &str) {
    last_words(client, response("400 Bad Request", &format!("sandbar: {why}\n")).as_bytes()).await;
}

/// Cuts a connection whose protocol has no word for no.
pub(super) fn refuse_silently(client: TcpStream) {
    cut(&client);
    drop(client);
}

fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Says something and closes when the other side has heard it: a socket that is closed with something unread in it is
/// reset, and the words are lost.
async fn last_words(mut client: TcpStream, words: &[u8]) {
    let say = async {
        client.write_all(words).await?;
        client.shutdown().await?;
        tokio::io::copy(&mut (&mut client).take(MOST_UNREAD), &mut tokio::io::sink()).await
    };
    // A client that is gone needs no words.
    let _ = timeout(HEARING, say).await;
}

/// What a refused client may still say.
const MOST_UNREAD: u64 = 1024 * 1024;
