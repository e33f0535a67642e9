//! Reads the first bytes of a client, which state the host it wants to reach.

use std::{io, time::Duration};

use tokio::{net::TcpStream, time::timeout};

use super::relay::{end, pump, reset_on_close, send_all};
use crate::{
    meter::Meter,
    sniff::{Opening, may_carry_name, opening},
    traffic::Direction,
};

/// Limit for the first bytes of a client. A client that waits for the server to speak first, at a
/// destination that is denied, is refused after this time.
pub(super) const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(3);

/// Reason of a denied connection that ended, or paused for long, before its host name.
pub(super) const CUT_SHORT: &str = "TLS or HTTP that ends before its host name";

/// A client that sends nothing for this long is assumed to wait for the server to speak first.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_millis(100);

/// Reads more bytes; `false` at the end of the stream.
async fn read_more(client: &TcpStream, received: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        client.readable().await?;
        let mut part = [0; 4096];
        match client.try_read(&mut part) {
            Ok(length) => {
                received.extend_from_slice(&part[..length]);
                return Ok(length > 0);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads until `known` recognises the received bytes; `None` if the stream ends before. All bytes
/// that were read are in `received`, even if the future is dropped.
pub(super) async fn read_until<T>(
    client: &TcpStream,
    received: &mut Vec<u8>,
    known: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    loop {
        if let Some(known) = known(received) {
            return Ok(Some(known));
        }
        if !read_more(client, received).await? {
            return Ok(None);
        }
    }
}

/// Reads until the protocol is known; `None` if the stream ends before.
pub(super) async fn read_opening(
    client: &TcpStream,
    received: &mut Vec<u8>,
) -> io::Result<Option<Opening>> {
    read_until(client, received, known_opening).await
}

fn known_opening(received: &[u8]) -> Option<Opening> {
    match opening(received) {
        Opening::Unfinished => None,
        known => Some(known),
    }
}

/// Whether a pause after these bytes may mean that the client waits for the server: there are none
/// yet, or they are not the start of a TLS handshake.
pub(super) fn may_be_complete(received: &[u8]) -> bool {
    const TLS_HANDSHAKE: u8 = 22;
    received.first() != Some(&TLS_HANDSHAKE)
}

/// Side that sends first on a connection that is already connected upstream.
pub(super) enum FirstSpeaker {
    Client(Opening),
    /// The server, neither because one side has closed, or the client with a protocol that is not
    /// recognised yet.
    Unclear,
}

pub(super) async fn first_speaker(
    client: &TcpStream,
    received: &mut Vec<u8>,
    upstream: &TcpStream,
) -> io::Result<FirstSpeaker> {
    if received.is_empty() {
        tokio::select! {
            biased;
            more = read_more(client, received) => {
                if !more? {
                    return Ok(FirstSpeaker::Unclear);
                }
            }
            readable = upstream.readable() => {
                readable?;
                return Ok(FirstSpeaker::Unclear);
            }
        }
    }
    let limit = if may_be_complete(received) {
        SILENCE_TIMEOUT
    } else {
        FIRST_BYTES_TIMEOUT
    };
    tokio::select! {
        biased;
        outcome = timeout(limit, read_opening(client, received)) => match outcome {
            Ok(outcome) => Ok(outcome?.map_or(FirstSpeaker::Unclear, FirstSpeaker::Client)),
            Err(_) => Ok(FirstSpeaker::Unclear),
        },
        readable = upstream.readable() => readable.map(|()| FirstSpeaker::Unclear),
    }
}

/// The client started TLS or HTTP when its connection could no longer be judged by host name.
pub(super) struct TooLate;

/// Relays bytes both ways until the client turns out to speak TLS or HTTP, and fails then, also if
/// it closes in the middle of a ClientHello or request line. The server receives no part of either
/// this way, so that a host name cannot bypass the rules by being sent late.
pub(super) async fn relay_watching(
    client: &TcpStream,
    upstream: &TcpStream,
    mut received: Vec<u8>,
    meter: &Meter,
) -> Result<(), TooLate> {
    let mut is_too_late = false;
    let up = async {
        let mut sent = 0;
        loop {
            match known_opening(&received) {
                Some(Opening::Tls(_) | Opening::Http) => {
                    is_too_late = true;
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                None if may_carry_name(&received) => {}
                known => {
                    send_all(upstream, &received[sent..], meter, Direction::Sent).await?;
                    sent = received.len();
                    if known.is_some() {
                        drop(received);
                        return pump(client, upstream, meter, Direction::Sent).await;
                    }
                }
            }
            if !read_more(client, &mut received).await? {
                if may_carry_name(&received) {
                    is_too_late = true;
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                return end(upstream);
            }
        }
    };
    let moved = tokio::try_join!(up, pump(upstream, client, meter, Direction::Received));
    if moved.is_err() {
        reset_on_close(client);
        reset_on_close(upstream);
    }
    if is_too_late { Err(TooLate) } else { Ok(()) }
}
