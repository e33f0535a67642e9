//! Tunnels for upgraded connections, such as WebSocket.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use crate::access::Call;

/// Copies bytes in both directions until both sides have closed, one fails, or the server stops.
pub(super) async fn run(
    client: OnUpgrade,
    server: OnUpgrade,
    _call: Call,
    shutdown: CancellationToken,
) {
    let relayed = async move {
        let (client, server) = tokio::try_join!(client, server)?;
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // An error of one side closes both connections, which is all there is to do.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        Ok::<_, hyper::Error>(())
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        outcome = relayed => if let Err(error) = outcome {
            tracing::debug!(%error, "connection upgrade failed");
        }
    }
}
