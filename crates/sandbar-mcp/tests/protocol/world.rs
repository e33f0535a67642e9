//! Fixture: a host in this process, and MCP connections to it.

use std::{path::Path, sync::Arc};

use sandbar_client::Client;
use sandbar_core::{AccessToken, BaseName};
use sandbar_host::{Host, HostConfig};
use sandbar_mcp::{DefaultSandbox, Ended, McpServer, PortNames, serve_stdio};
use sandbar_server::{RunningServer, ServerConfig, serve};
use sandbar_testing::{ScratchDirectory, make_small_root, private_mounts};
use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
        duplex, split,
    },
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::schema::check_message;

/// Capacity of the pipe between client and server.
const PIPE: usize = 1 << 16;

pub(crate) struct World {
    pub(crate) client: Client,
    host: Arc<Host>,
    server: RunningServer,
    stop: CancellationToken,
}

impl World {
    /// Runs a test against a new host, and stops it afterwards.
    pub(crate) fn run(test: impl AsyncFnOnce(&World)) {
        private_mounts();
        let directory = ScratchDirectory::new();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let world = World::start(directory.path()).await;
            test(&world).await;
            world.stop.cancel();
            world.server.finished().await.unwrap();
            world.host.shutdown().await.unwrap();
        });
    }

    async fn start(directory: &Path) -> Self {
        let source = directory.join("source");
        make_small_root(&source);
        let config = HostConfig {
            data_dir: directory.join("data"),
            storage_backend: "local-disk".parse().unwrap(),
            container_runtime: "none".parse().unwrap(),
            ..HostConfig::default()
        };
        let host = Host::start(config).await.unwrap();
        let token = AccessToken::random().unwrap();
        let stop = CancellationToken::new();
        let config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), Some(token.clone()));
        let server = serve(Arc::clone(&host), config, stop.clone())
            .await
            .unwrap();
        let client = Client::connect(
            &format!("http://{}", server.address()),
            Some(token.reveal()),
        )
        .await
        .unwrap();
        client
            .import_base(&small(), source.to_str().unwrap(), |_| {})
            .await
            .unwrap();
        Self {
            client,
            host,
            server,
            stop,
        }
    }

    /// Opens a connection with a scratch sandbox, before any message.
    pub(crate) fn connect(&self) -> Connection {
        self.connect_with(DefaultSandbox::scratch(small(), false))
    }

    pub(crate) fn connect_with(&self, default: DefaultSandbox) -> Connection {
        let (near, far) = duplex(PIPE);
        let (client, stop) = (self.client.clone(), CancellationToken::new());
        let asked = stop.clone();
        let serving = tokio::spawn(async move {
            let server = McpServer::new(
                client.clone(),
                default.clone(),
                PortNames::of_host(client.url()),
            );
            let (input, output) = split(far);
            let ended = serve_stdio(server, input, output, asked.cancelled_owned()).await;
            default.close(&client).await.unwrap();
            ended.unwrap()
        });
        let (output, input) = split(near);
        Connection {
            input: Some(input),
            output: BufReader::new(output),
            serving,
            stop,
        }
    }

    /// Opens a connection and completes the handshake with a version.
    pub(crate) async fn greet(&self, version: &str) -> Connection {
        self.greet_with(version, DefaultSandbox::scratch(small(), false))
            .await
    }

    pub(crate) async fn greet_with(&self, version: &str, default: DefaultSandbox) -> Connection {
        let mut connection = self.connect_with(default);
        let greeting = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        connection
            .request(json!("hello"), "initialize", greeting)
            .await;
        assert_eq!(
            connection.receive().await["result"]["protocolVersion"],
            version
        );
        connection
            .say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        connection
    }

    /// Returns the ids of all sandboxes.
    pub(crate) async fn sandboxes(&self) -> Vec<String> {
        let sessions = self
            .client
            .all_sessions(&sandbar_core::SessionFilter::default())
            .await
            .unwrap();
        sessions
            .into_iter()
            .map(|session| session.id.to_string())
            .collect()
    }
}

fn small() -> BaseName {
    BaseName::new("small").unwrap()
}

/// Client side of a connection.
pub(crate) struct Connection {
    input: Option<WriteHalf<DuplexStream>>,
    output: BufReader<ReadHalf<DuplexStream>>,
    serving: JoinHandle<Ended>,
    pub(crate) stop: CancellationToken,
}

impl Connection {
    pub(crate) async fn say(&mut self, message: &Value) {
        self.say_bytes(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    pub(crate) async fn request(&mut self, id: Value, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
    }

    /// Receives and checks the next message.
    pub(crate) async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        check_message(&message);
        message
    }

    /// Sends a request and returns the response, which must be the next message.
    pub(crate) async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.request(id.into(), method, params).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) async fn tool(&mut self, id: u64, name: &str, arguments: Value) -> Value {
        self.ask(
            id,
            "tools/call",
            json!({"name": name, "arguments": arguments}),
        )
        .await["result"]
            .clone()
    }

    /// Closes the input of the server.
    pub(crate) async fn close_input(&mut self) {
        if let Some(mut input) = self.input.take() {
            input.shutdown().await.unwrap();
        }
    }

    /// Closes the input, and returns how the server ended.
    pub(crate) async fn close(mut self) -> Ended {
        self.close_input().await;
        self.serving.await.unwrap()
    }

    /// Drops both directions.
    pub(crate) async fn vanish(self) -> Ended {
        drop((self.input, self.output));
        self.serving.await.unwrap()
    }

    /// Waits until the server has ended.
    pub(crate) async fn ended(self) -> Ended {
        self.serving.await.unwrap()
    }
}
