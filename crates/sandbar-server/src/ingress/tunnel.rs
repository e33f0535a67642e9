//! Connections that go on with another protocol, as WebSocket does.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

/// Moves bytes both ways until both sides have said all they have to say, one is gone, or the server stops.
pub(super) fn open(client: OnUpgrade, server: OnUpgrade, shutdown: CancellationToken) {
    let relayed = async move {
        let (client, server) = tokio::try_join!(client, server)?;
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // However it breaks, both connections are closed.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        Ok::<_, hyper::Error>(())
    };
    tokio::spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            outcome = relayed => if let Err(error) = outcome {
                tracing::debug!(%error, "a connection was not handed over");
            }
        }
    });
}
