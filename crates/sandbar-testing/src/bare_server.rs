//! A server that only answers, as a process of its own: what HTTP alone costs on this machine.

#![expect(
    clippy::print_stdout,
    reason = "the process that started the server reads its address"
)]

use std::{
    convert::Infallible,
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    service::Service,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};

/// The program that started it, started once more in this role.
#[derive(Debug)]
pub struct BareServer {
    child: Child,
    pub address: SocketAddr,
}

impl BareServer {
    /// Starts this program with these arguments; it is to call [`serve_bare`]. `input` is the
    /// beginning of its stdin.
    pub fn start(arguments: &[&str], input: &[u8]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Its stdin stays open: when it closes, the server ends, however we end.
        child.stdin.as_mut().unwrap().write_all(input).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            child,
            address: line.trim().parse().unwrap(),
        }
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Says where it listens, and serves until stdin ends.
pub fn serve_bare<S, B>(service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
        let _ = ended.await;
    });
}
