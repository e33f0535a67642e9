//! Closed-loop load: each caller sends its next call when the last one is answered.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1500);

/// Target and content of the calls.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) session: String,
}

/// Number of callers and connections.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) callers: usize,
    pub(crate) connections: usize,
}

impl Target {
    /// Returns `read_file` in JSON with a new call id: a repeated id would be answered from the
    /// result cache.
    fn request(&self, name: &str) -> Request<Full<Bytes>> {
        let body = format!(
            r#"{{"sessionId": "{}", "toolName": "read_file", "toolCallId": "{name}", "params": {{"path": "file"}}}}"#,
            self.session
        );
        Request::post(format!(
            "http://{}/sandbar.v1.SandboxService/ExecuteTool",
            self.address
        ))
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {}", self.token))
        .body(Full::new(body.into()))
        .unwrap()
    }

    pub(crate) async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Makes one call and returns its answer.
    pub(crate) async fn call(&self, sender: &mut SendRequest<Full<Bytes>>, name: &str) -> Bytes {
        let response = sender.send_request(self.request(name)).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        body
    }

    /// Returns the answers a second.
    #[expect(clippy::cast_precision_loss, reason = "a few hundred thousand")]
    pub(crate) async fn rate(&self, shape: Shape, run: &str) -> f64 {
        let mut connections = Vec::new();
        for _ in 0..shape.connections {
            connections.push(self.connect().await);
        }
        let answered = Arc::new(AtomicUsize::new(0));
        let enough = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..shape.callers)
            .map(|caller| {
                let (target, answered, enough) =
                    (self.clone(), Arc::clone(&answered), Arc::clone(&enough));
                let mut connection = connections[caller % shape.connections].clone();
                let run = run.to_owned();
                tokio::spawn(async move {
                    let mut number = 0;
                    while !enough.load(Ordering::Relaxed) {
                        target
                            .call(&mut connection, &format!("{run}-{caller}-{number}"))
                            .await;
                        answered.fetch_add(1, Ordering::Relaxed);
                        number += 1;
                    }
                })
            })
            .collect();
        tokio::time::sleep(WARM_UP).await;
        let (before, started) = (answered.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(MEASURED).await;
        let rate =
            (answered.load(Ordering::Relaxed) - before) as f64 / started.elapsed().as_secs_f64();
        // Waits for all answers: cancelled calls would disturb the next measurement.
        enough.store(true, Ordering::Relaxed);
        for caller in callers {
            caller.await.unwrap();
        }
        rate
    }
}
