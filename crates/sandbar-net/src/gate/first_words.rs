//! Hears what a client says first, which tells where it wants to go.

use std::{io, time::Duration};

use tokio::{net::TcpStream, time::timeout};

use super::relay::{cut, end, pump, send_all};
use crate::{
    meter::Meter,
    sniff::{Opening, opening},
    traffic::Direction,
};

/// How long a client may take to say what cannot be decided without. Who waits for a server that it may not reach is told
/// after this.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// How long a client is silent that waits for the server to speak.
pub(super) const SILENCE: Duration = Duration::from_millis(100);

/// Reads a little more. `false`: the client has ended.
async fn hear_more(client: &TcpStream, said: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        client.readable().await?;
        let mut part = [0; 4096];
        match client.try_read(&mut part) {
            Ok(length) => {
                said.extend_from_slice(&part[..length]);
                return Ok(length > 0);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads on until `known` makes something of what was said; `None` when the client ends before. What was read is in
/// `said`, also when this is dropped.
pub(super) async fn hear_until<T>(
    client: &TcpStream,
    said: &mut Vec<u8>,
    known: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    loop {
        if let Some(known) = known(said) {
            return Ok(Some(known));
        }
        if !hear_more(client, said).await? {
            return Ok(None);
        }
    }
}

/// How the client begins; `None` when it ends before that can be said.
pub(super) async fn hear_opening(client: &TcpStream, said: &mut Vec<u8>) -> io::Result<Option<Opening>> {
    hear_until(client, said, known_opening).await
}

fn known_opening(said: &[u8]) -> Option<Opening> {
    match opening(said) {
        Opening::Unfinished => None,
        known => Some(known),
    }
}

/// Whether silence after this means that the client waits: nothing was said, or something that is no half of a hello.
pub(super) fn may_be_all(said: &[u8]) -> bool {
    const HANDSHAKE_OF_TLS: u8 = 22;
    said.first() != Some(&HANDSHAKE_OF_TLS)
}

/// Who speaks first on a connection that has another end already.
pub(super) enum Beginning {
    Client(Opening),
    /// The server, or nobody because one has ended, or the client with something nobody can tell yet.
    Unclear,
}

pub(super) async fn who_begins(client: &TcpStream, said: &mut Vec<u8>, upstream: &TcpStream) -> io::Result<Beginning> {
    if said.is_empty() {
        tokio::select! {
            biased;
            more = hear_more(client, said) => {
                if !more? {
                    return Ok(Beginning::Unclear);
                }
            }
            spoken = upstream.readable() => {
                spoken?;
                return Ok(Beginning::Unclear);
            }
        }
    }
    let patience = if may_be_all(said) { SILENCE } else { PATIENCE };
    tokio::select! {
        biased;
        heard = timeout(patience, hear_opening(client, said)) => match heard {
            Ok(heard) => Ok(heard?.map_or(Beginning::Unclear, Beginning::Client)),
            Err(_) => Ok(Beginning::Unclear),
        },
        spoken = upstream.readable() => spoken.map(|()| Beginning::Unclear),
    }
}

/// A client began to speak TLS or HTTP where that can no longer be judged.
pub(super) struct TooLate;

/// Moves bytes both ways as long as the client does not turn out to speak TLS or HTTP after all. No server ever sees a
/// whole hello or a first line this way.
pub(super) async fn relay_watching(
    client: &TcpStream,
    upstream: &TcpStream,
    mut said: Vec<u8>,
    meter: &Meter,
) -> Result<(), TooLate> {
    let mut is_too_late = false;
    let up = async {
        let mut sent = 0;
        loop {
            match known_opening(&said) {
                Some(Opening::Tls(_) | Opening::Http) => {
                    is_too_late = true;
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                known => {
                    send_all(upstream, &said[sent..], meter, Direction::Sent).await?;
                    sent = said.len();
                    if known.is_some() {
                        drop(said);
                        return pump(client, upstream, meter, Direction::Sent).await;
                    }
                }
            }
            if !hear_more(client, &mut said).await? {
                return end(upstream);
            }
        }
    };
    let moved = tokio::try_join!(up, pump(upstream, client, meter, Direction::Received));
    if moved.is_err() {
        cut(client);
        cut(upstream);
    }
    if is_too_late { Err(TooLate) } else { Ok(()) }
}
