//! Questions over a connection, each after its length.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// How long a connection for questions may be idle.
const IDLE: Duration = Duration::from_secs(10);

/// Answers questions on a connection until it ends, is idle, or something comes that has no answer.
pub(crate) async fn answer_stream<F>(mut client: TcpStream, answer: impl Fn(Vec<u8>) -> F)
where
    F: Future<Output = Option<Vec<u8>>>,
{
    while let Ok(Ok(question)) = timeout(IDLE, read_question(&mut client)).await {
        let Some(message) = answer(question).await else { return };
        let Ok(length) = u16::try_from(message.len()) else { return };
        let framed = [&length.to_be_bytes()[..], &message].concat();
        if !matches!(timeout(IDLE, client.write_all(&framed)).await, Ok(Ok(()))) {
            return;
        }
    }
}

async fn read_question(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = client.read_u16().await?;
    let mut question = vec![0; usize::from(length)];
    client.read_exact(&mut question).await?;
    Ok(question)
}
