//! Accepts the connections of a session.

use std::{sync::Arc, time::Duration};

use sandbar_core::{NetworkDecision, NetworkProtocol, NetworkVerdict};
use tokio::net::{TcpListener, TcpStream};

use super::{Tasks, refuse::refuse_silently, tcp_flow};
use crate::{egress_context::EgressContext, session_egress::SessionEgress};

/// Delay after a failed `accept`, for example when the process has no descriptors left.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Accepts connections until the listener closes. Each is served by its own task.
pub(crate) async fn accept(listener: TcpListener, session: Arc<SessionEgress>, tasks: Tasks) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => begin(client, &session, &tasks),
            // The client closed its connection while it was in the backlog.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection of a session");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

fn begin(client: TcpStream, session: &Arc<SessionEgress>, tasks: &Tasks) {
    // TPROXY keeps the original destination as the local address of the accepted socket.
    let Ok(mut to) = client.local_addr() else {
        return;
    };
    to.set_ip(to.ip().to_canonical());
    let host_permit = || {
        session
            .connection_permit()
            .ok_or_else(|| "connection limit of the host reached".to_owned())
    };
    match session
        .meter()
        .admit()
        .and_then(|permit| host_permit().map(|host_permit| (permit, host_permit)))
    {
        Ok(permits) => {
            let session = Arc::clone(session);
            tasks.spawn(async move {
                tcp_flow::serve(session, client, to).await;
                drop(permits);
            });
        }
        Err(reason) => {
            session.record(NetworkDecision {
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
