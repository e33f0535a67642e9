//! A server that answers as a host does and does nothing: what HTTP and the client alone cost on this machine.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use axum::{
    Router,
    http::{StatusCode, header},
    routing::{delete, post},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};

use crate::client::frame;

/// This program started so is the server.
pub(crate) const ROLE: &str = "bare-server";

/// The server as a process of its own, as the host is one.
pub(crate) struct Bare {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Bare {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        // Its stdin stays open: when it closes, the server ends, however we end.
        let mut child = command.arg(ROLE).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: line.trim().parse().unwrap() }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Says where it listens, and serves until stdin ends.
#[expect(clippy::print_stdout, reason = "whoever started it reads the address")]
pub(crate) fn serve() {
    let handle =
        r#"{"templateID":"base","sandboxID":"bare","clientID":"bare","envdVersion":"0.6.4","envdAccessToken":"t"}"#;
    let said: Vec<u8> = [
        frame(0, r#"{"event":{"start":{"pid":42}}}"#),
        frame(0, r#"{"event":{"data":{"stdout":"aGVsbG8K"}}}"#),
        frame(0, r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#),
        frame(2, "{}"),
    ]
    .concat();
    let create = async move || (StatusCode::CREATED, [(header::CONTENT_TYPE, "application/json")], handle);
    let start = move || {
        let said = said.clone();
        async move { ([(header::CONTENT_TYPE, "application/connect+json")], said) }
    };
    let router = Router::new()
        .route("/sandboxes", post(create))
        .route("/v2/sandboxes", post(create))
        .route("/process.Process/Start", post(start))
        .route("/sandboxes/{id}", delete(async || StatusCode::NO_CONTENT));
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let service = TowerToHyperService::new(router.clone());
                tokio::spawn(async move {
                    let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
        let _ = ended.await;
    });
}
