//! The requests of an SDK for `Sandbox.create().commands.run("echo hello")`.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, StatusCode, client::conn::http1};
use hyper_util::rt::TokioIo;
use sandbar_e2b::api_key;
use sandbar_testing::measure::milliseconds;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::sleep};

#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    api_key: String,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        Self {
            address,
            api_key: api_key(token),
        }
    }

    /// Returns the milliseconds until the first output in a new sandbox, without its removal.
    pub(crate) async fn first_word(&self) -> f64 {
        let began = Instant::now();
        let body = json!({ "templateID": "base", "timeout": 300 });
        let handle = self
            .send("POST", "/v2/sandboxes", &[], body.to_string().into())
            .await;
        let handle: Value = serde_json::from_slice(&handle).unwrap();
        let id = handle["sandboxID"].as_str().unwrap();
        let access = handle["envdAccessToken"].as_str().unwrap_or_default();
        let headers = [
            ("e2b-sandbox-id", id),
            ("e2b-sandbox-port", "49983"),
            ("x-access-token", access),
            ("content-type", "application/connect+json"),
            ("connect-protocol-version", "1"),
        ];
        let said = self
            .send("POST", "/process.Process/Start", &headers, start())
            .await;
        assert!(
            said.windows(12).any(|bytes| bytes == b"aGVsbG8K\"}}}"),
            "{}",
            String::from_utf8_lossy(&said)
        );
        let taken = milliseconds(began);
        self.send("DELETE", &format!("/sandboxes/{id}"), &[], Bytes::new())
            .await;
        taken
    }

    /// Measures `count` sandboxes, started at intervals.
    pub(crate) async fn crowd(&self, count: usize, stagger: Duration) -> Vec<f64> {
        let all = (0u32..).take(count).map(|number| {
            let client = self.clone();
            tokio::spawn(async move {
                sleep(stagger * number).await;
                client.first_word().await
            })
        });
        let mut taken = Vec::new();
        for one in all.collect::<Vec<_>>() {
            taken.push(one.await.unwrap());
        }
        taken
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Bytes) -> Bytes {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string());
        request = request.header("x-api-key", &self.api_key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = sender
            .send_request(request.body(Full::new(body)).unwrap())
            .await
            .unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let fine = [StatusCode::OK, StatusCode::CREATED, StatusCode::NO_CONTENT].contains(&status);
        assert!(
            fine,
            "{method} {path}: {status} {}",
            String::from_utf8_lossy(&body)
        );
        connection.abort();
        body
    }
}

/// Message of a Connect stream.
fn start() -> Bytes {
    let process = json!({ "cmd": "/bin/bash", "args": ["-l", "-c", "echo hello"], "envs": {} });
    frame(
        0,
        &json!({ "process": process, "stdin": false }).to_string(),
    )
    .into()
}

/// Encodes a message: flags, length, JSON.
pub(crate) fn frame(flag: u8, message: &str) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[flag], &length.to_be_bytes()[..], message.as_bytes()].concat()
}
