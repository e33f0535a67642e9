//! Server with handlers of a test.

use connectrpc::{Router, Server};
use sandbar_client::{Client, WireProtocol};
use tokio::task::JoinHandle;

pub(crate) const SERVICE: &str = "sandbar.v1.SandboxService";

pub(crate) const PROTOCOLS: [WireProtocol; 4] = [
    WireProtocol::Connect,
    WireProtocol::ConnectJson,
    WireProtocol::Grpc,
    WireProtocol::GrpcWeb,
];

/// Server on a free loopback port, stopped when dropped.
pub(crate) struct Double {
    url: String,
    task: JoinHandle<()>,
}

impl Double {
    pub(crate) async fn serve(router: Router) -> Self {
        Self::serve_at("127.0.0.1:0", router).await
    }

    pub(crate) async fn serve_at(address: &str, router: Router) -> Self {
        let server = Server::bind(address).await.unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        let task = tokio::spawn(async move {
            server.serve(router).await.unwrap();
        });
        Self { url, task }
    }

    /// Returns the address it listens on.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Stops the server and all its connections abruptly, like a crash.
    pub(crate) async fn crash(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    pub(crate) async fn client(&self, protocol: WireProtocol) -> Client {
        Client::connect_with(&self.url, Some("a token"), protocol)
            .await
            .unwrap()
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.task.abort();
    }
}
