//! Questions for names, whoever they were sent to.

use std::sync::Arc;

use tokio::{net::TcpStream, sync::Semaphore};

use super::{GateDatagrams, Tasks};
use crate::{
    dns::{MOST_IN_DATAGRAM, MOST_IN_STREAM, answer, answer_stream},
    http::Outside,
    session_gate::SessionGate,
    traffic::Direction,
};

pub(super) const PORT: u16 = 53;

/// Questions of a session that are being answered at once. More are dropped, and asked again.
const MOST_QUESTIONS: usize = 128;

/// Answers datagrams until the gate closes.
pub(crate) async fn answer_datagrams(datagrams: Arc<GateDatagrams>, gate: Arc<SessionGate>, tasks: Tasks) {
    let places = Arc::new(Semaphore::new(MOST_QUESTIONS));
    let mut buffer = [0; 4096];
    loop {
        let datagram = datagrams.next(&mut buffer).await;
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (gate, datagrams) = (Arc::clone(&gate), Arc::clone(&datagrams));
        let question = buffer[..datagram.length].to_vec();
        tasks.spawn(async move {
            if let Some(message) = answer_one(&gate, &question, MOST_IN_DATAGRAM).await
                && let Err(error) = datagrams.send(&message, datagram.from, datagram.meant_for).await
            {
                tracing::debug!(%error, "an answer did not reach its session");
            }
            drop(place);
        });
    }
}

/// Answers questions on a connection until it ends or is idle.
pub(super) async fn answer_connection(gate: &SessionGate, client: TcpStream) {
    answer_stream(client, |question| async move { answer_one(gate, &question, MOST_IN_STREAM).await }).await;
}

async fn answer_one(gate: &SessionGate, question: &[u8], most: usize) -> Option<Vec<u8>> {
    gate.meter().moved(Direction::Sent, 0, question.len());
    let (rules, own) = (gate.rules(), gate.own_addresses());
    let answer = answer(question, &rules, gate.resolver(), gate.names(), &own, most).await?;
    if let Some(decision) = answer.decision {
        gate.record(decision);
    }
    gate.meter().moved(Direction::Received, 0, answer.message.len());
    Some(answer.message)
}
