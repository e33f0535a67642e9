//! A server that does nothing: what HTTP alone costs on this machine.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use axum::{Router, body::Bytes, http::header, routing::post};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};

/// This program started so is the server.
pub(crate) const ROLE: &str = "bare-server";

/// The server as a process of its own, as the host is one.
pub(crate) struct Bare {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Bare {
    /// It answers every request with this body.
    pub(crate) fn start(body: &[u8]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(ROLE).arg(body.len().to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Its stdin stays open: when it closes, the server ends, however we end.
        child.stdin.as_mut().unwrap().write_all(body).unwrap();
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

/// Reads the body from stdin, says where it listens, and serves until stdin ends.
#[expect(clippy::print_stdout, reason = "whoever started it reads the address")]
pub(crate) fn serve(arguments: &[String]) {
    let mut body = vec![0; arguments[0].parse().unwrap()];
    std::io::stdin().read_exact(&mut body).unwrap();
    let body = Bytes::from(body);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let answer = move |_: Bytes| {
            let body = body.clone();
            async move { ([(header::CONTENT_TYPE, "application/json")], body) }
        };
        let router = Router::new().fallback(post(answer));
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
