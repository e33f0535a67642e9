//! A unary tool call over loopback, against the same call in the host's process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use sandbar_client::{Client, WireProtocol};
use sandbar_core::{
    BaseName, Resources, RuntimeKind, SessionId, SessionSpec, ToolRequest, ToolResponse,
};
use sandbar_host::{Host, HostConfig};
use sandbar_server::{AccessToken, ServerConfig, serve};
use sandbar_testing::{
    Backend, StorageFixture,
    measure::{Report, alternate, middle, milliseconds},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 300;

/// Session with the file to read.
struct Subject {
    host: Arc<Host>,
    session: SessionId,
    calls: AtomicUsize,
}

impl Subject {
    /// Returns a request with a new call id: a repeated id would be answered from the result cache.
    fn request(&self, tool: &str, params: &Value) -> ToolRequest {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        ToolRequest {
            tool: tool.into(),
            call: format!("call-{number}").parse().unwrap(),
            params: params.as_object().unwrap().clone(),
            resources: Resources::default(),
        }
    }

    async fn in_process(&self, tool: &str, params: &Value) -> f64 {
        let request = self.request(tool, params);
        let started = Instant::now();
        let response = self
            .host
            .execute_tool(&self.session, request)
            .await
            .unwrap();
        let duration = milliseconds(started);
        check(&response);
        duration
    }

    async fn over(&self, client: &Client, tool: &str, params: &Value) -> f64 {
        let request = self.request(tool, params);
        let started = Instant::now();
        let response = client.execute_tool(&self.session, &request).await.unwrap();
        let duration = milliseconds(started);
        check(&response);
        duration
    }
}

fn check(response: &ToolResponse) {
    assert!(!response.is_error, "{response:?}");
}

pub(crate) fn measure(report: &mut Report) {
    let storage = StorageFixture::with_size(Backend::BtrfsImage, 6144);
    let config = HostConfig::on_storage(storage.data_dir(), storage.close(), RuntimeKind::Native);
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        let host = Host::start(config).await.unwrap();
        let session = host
            .create_session(SessionSpec::new(BaseName::new("host").unwrap()))
            .await
            .unwrap()
            .id;
        let subject = Subject {
            host: Arc::clone(&host),
            session,
            calls: AtomicUsize::new(0),
        };
        let content = "0123456789abcde\n".repeat(16);
        subject
            .in_process("write_file", &json!({"path": "file", "content": content}))
            .await;
        let token = AccessToken::random().unwrap();
        let secret = token.reveal().to_owned();
        let stop = CancellationToken::new();
        let listen = "127.0.0.1:0".parse().unwrap();
        let server = serve(host, ServerConfig::new(listen, Some(token)), stop.clone())
            .await
            .unwrap();
        let url = format!("http://{}", server.address());
        for (protocol, name, aim) in [
            (WireProtocol::Connect, "Connect", Some(3.0)),
            (WireProtocol::ConnectJson, "Connect in JSON", None),
            (WireProtocol::Grpc, "gRPC", None),
        ] {
            let client = Client::connect_with(&url, Some(&secret), protocol)
                .await
                .unwrap();
            compare(&subject, &client, name, aim, report);
        }
        stop.cancel();
        server.finished().await.unwrap();
        subject.host.shutdown().await.unwrap();
    });
}

fn compare(
    subject: &Subject,
    client: &Client,
    protocol: &str,
    aim: Option<f64>,
    report: &mut Report,
) {
    let tools = [
        (
            "read_file",
            "read_file of 256 bytes",
            json!({"path": "file"}),
        ),
        ("bash", "bash `true`", json!({"cmd": "true"})),
    ];
    for (tool, what, params) in tools {
        // Each round is measured on the calling thread.
        let (inside, outside) = tokio::task::block_in_place(|| {
            let handle = tokio::runtime::Handle::current();
            alternate(
                ROUNDS,
                |_| handle.block_on(subject.in_process(tool, &params)),
                |_| handle.block_on(subject.over(client, tool, &params)),
            )
        });
        report.ratio(
            format!("{what}, {protocol} over loopback ÷ in process"),
            middle(&outside),
            middle(&inside),
            aim,
        );
    }
}
