//! DNS queries of a session. The gateway answers them, whatever server they were sent to.

use std::sync::Arc;

use tokio::{net::TcpStream, sync::Semaphore};

use super::{DatagramSocket, Tasks};
use crate::{
    dns::{MAX_DATAGRAM_BYTES, MAX_STREAM_BYTES, answer, answer_stream},
    egress_context::EgressContext,
    session_egress::SessionEgress,
    traffic::Direction,
};

pub(super) const PORT: u16 = 53;

/// Queries of a session that are answered at the same time. More are dropped; resolvers repeat
/// them.
const MAX_CONCURRENT_QUERIES: usize = 128;

/// Answers queries in datagrams until the listener closes.
pub(crate) async fn answer_datagrams(
    datagrams: Arc<DatagramSocket>,
    session: Arc<SessionEgress>,
    tasks: Tasks,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_QUERIES));
    let mut buffer = [0; 4096];
    loop {
        let datagram = datagrams.next(&mut buffer).await;
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            continue;
        };
        let (session, datagrams) = (Arc::clone(&session), Arc::clone(&datagrams));
        let query = buffer[..datagram.length].to_vec();
        tasks.spawn(async move {
            if let Some(message) = answer_one(&session, &query, MAX_DATAGRAM_BYTES).await
                && let Err(error) = datagrams
                    .send(&message, datagram.from, datagram.destination)
                    .await
            {
                tracing::debug!(%error, "could not send a DNS answer to a session");
            }
            drop(permit);
        });
    }
}

/// Answers queries on a connection until it ends or is idle.
pub(super) async fn answer_connection(session: &SessionEgress, client: TcpStream) {
    answer_stream(client, |query| async move {
        answer_one(session, &query, MAX_STREAM_BYTES).await
    })
    .await;
}

async fn answer_one(session: &SessionEgress, query: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
    session.meter().moved(Direction::Sent, 0, query.len());
    let (rules, own) = (session.rules(), session.own_addresses());
    let answer = answer(
        query,
        &rules,
        session.resolver(),
        session.names(),
        &own,
        max_bytes,
    )
    .await?;
    if let Some(decision) = answer.decision {
        session.record(decision);
    }
    session
        .meter()
        .moved(Direction::Received, 0, answer.message.len());
    Some(answer.message)
}
