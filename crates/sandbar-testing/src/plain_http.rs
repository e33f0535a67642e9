//! HTTP/1.1 by hand, as `curl` would speak it.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Bytes, Incoming},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinHandle};

/// An answer that was read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or("(no text)")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The detail of an error of ours, as people see it.
    pub fn detail(&self) -> Value {
        self.json()["details"][0]["debug"].clone()
    }
}

/// One connection with one request on it; dropping it closes the connection.
#[derive(Debug)]
pub struct Exchange {
    pub response: Response<Incoming>,
    connection: JoinHandle<()>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Sends a request by a connection of its own, and waits for the head of the answer.
pub async fn exchange(address: SocketAddr, request: Request<Full<Bytes>>) -> Exchange {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(async move {
        let _ = connection.await;
    });
    let response = sender.send_request(request).await.unwrap();
    Exchange {
        response,
        connection,
    }
}

/// Sends a request and reads the answer.
pub async fn send(address: SocketAddr, request: Request<Full<Bytes>>) -> Answer {
    let mut exchange = exchange(address, request).await;
    let body = exchange
        .response
        .body_mut()
        .collect()
        .await
        .unwrap()
        .to_bytes();
    Answer {
        status: exchange.response.status(),
        headers: exchange.response.headers().clone(),
        body,
    }
}
