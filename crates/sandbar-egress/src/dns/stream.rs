//! DNS over TCP: messages with a length prefix.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// Idle timeout of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers queries until the connection ends, is idle, or sends a message without an answer.
pub(crate) async fn answer_stream<F>(mut client: TcpStream, answer: impl Fn(Vec<u8>) -> F)
where
    F: Future<Output = Option<Vec<u8>>>,
{
    while let Ok(Ok(query)) = timeout(IDLE_TIMEOUT, read_query(&mut client)).await {
        let Some(message) = answer(query).await else {
            return;
        };
        let Ok(length) = u16::try_from(message.len()) else {
            return;
        };
        let framed = [&length.to_be_bytes()[..], &message].concat();
        if !matches!(
            timeout(IDLE_TIMEOUT, client.write_all(&framed)).await,
            Ok(Ok(()))
        ) {
            return;
        }
    }
}

async fn read_query(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = client.read_u16().await?;
    let mut query = vec![0; usize::from(length)];
    client.read_exact(&mut query).await?;
    Ok(query)
}
