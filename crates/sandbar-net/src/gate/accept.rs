//! Takes the connections of a session.

use std::{sync::Arc, time::Duration};

use sandbar_core::{NetworkDecision, NetworkProtocol, NetworkVerdict};
use tokio::net::{TcpListener, TcpStream};

use super::{Tasks, refusal::refuse_silently, tcp_flow};
use crate::{http::Outside, session_gate::SessionGate};

/// The wait after a connection could not be accepted, as when descriptors have run out.
const BREATH: Duration = Duration::from_millis(100);

/// Takes connections until the gate closes. Each is served by a task of its own.
pub(crate) async fn accept(listener: TcpListener, gate: Arc<SessionGate>, tasks: Tasks) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => begin(client, &gate, &tasks),
            // A client that went away before it was its turn.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection at a gate");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}

fn begin(client: TcpStream, gate: &Arc<SessionGate>, tasks: &Tasks) {
    // The kernel has put there where the session wanted to go.
    let Ok(mut to) = client.local_addr() else { return };
    to.set_ip(to.ip().to_canonical());
    let of_host = || gate.place().ok_or_else(|| "more connections at once than the host has places for".to_owned());
    match gate.meter().admit().and_then(|place| of_host().map(|of_host| (place, of_host))) {
        Ok(places) => {
            let gate = Arc::clone(gate);
            tasks.spawn(async move {
                tcp_flow::serve(gate, client, to).await;
                drop(places);
            });
        }
        Err(reason) => {
            gate.record(NetworkDecision {
                verdict: NetworkVerdict::Deny,
                protocol: NetworkProtocol::Tcp,
                host: None,
                address: Some(to),
                port: to.port(),
                reason,
                secrets: Vec::new(),
            });
            refuse_silently(client);
        }
    }
}
