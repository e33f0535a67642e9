//! A client that sends what the SDKs send: REST, unary and streaming Connect calls in JSON, and
//! plain HTTP, over HTTP/1.1.

use std::net::SocketAddr;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinHandle};

pub(crate) use sandbar_testing::plain_http::{Answer, Exchange, exchange, send};

use crate::world::World;

impl World {
    /// Calls the control API with additional headers.
    pub(crate) async fn control_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map(ToString::to_string).unwrap_or_default();
        send(self.address, request.body(Full::from(body)).unwrap()).await
    }
}

/// A sandbox as an SDK knows it.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) address: SocketAddr,
    pub(crate) id: String,
    pub(crate) access_token: Option<String>,
    pub(crate) traffic_token: Option<String>,
    /// User of the calls; the default user if absent.
    pub(crate) user: Option<String>,
}

impl Sandbox {
    /// Reads the response to create or connect.
    pub(crate) fn of(address: SocketAddr, handle: &Value) -> Self {
        let text = |name: &str| handle[name].as_str().map(str::to_owned);
        Self {
            address,
            id: text("sandboxID").unwrap(),
            access_token: text("envdAccessToken"),
            traffic_token: text("trafficAccessToken"),
            user: None,
        }
    }

    pub(crate) fn as_user(&self, user: &str) -> Self {
        Self {
            user: Some(user.to_owned()),
            ..self.clone()
        }
    }

    /// Builds a request to envd with all headers SDKs send.
    pub(crate) fn request(&self, method: &str, path: &str) -> http::request::Builder {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .header("e2b-sandbox-id", &self.id)
            .header("e2b-sandbox-port", "49983");
        if let Some(token) = &self.access_token {
            request = request.header("x-access-token", token);
        }
        if let Some(user) = &self.user {
            use base64::{Engine as _, prelude::BASE64_STANDARD};
            request = request.header(
                "authorization",
                format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:"))),
            );
        }
        request
    }

    pub(crate) async fn http(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        send(
            self.address,
            self.request(method, path)
                .body(Full::new(body.into()))
                .unwrap(),
        )
        .await
    }

    /// Makes a unary Connect call.
    pub(crate) async fn call(&self, procedure: &str, body: &Value) -> Answer {
        let request = self
            .request("POST", &format!("/{procedure}"))
            .header("content-type", "application/json")
            .header("connect-protocol-version", "1");
        send(
            self.address,
            request.body(Full::from(body.to_string())).unwrap(),
        )
        .await
    }

    /// Makes a server-streaming Connect call.
    pub(crate) async fn stream(
        &self,
        procedure: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Frames {
        self.stream_with(procedure, frame(0, &body.to_string()), headers)
            .await
    }

    /// Makes a client-streaming Connect call with these frames.
    pub(crate) async fn stream_body(&self, procedure: &str, frames: impl Into<Bytes>) -> Frames {
        self.stream_with(procedure, frames.into(), &[]).await
    }

    async fn stream_with(&self, procedure: &str, body: Bytes, headers: &[(&str, &str)]) -> Frames {
        let mut request = self
            .request("POST", &format!("/{procedure}"))
            .header("content-type", "application/connect+json")
            .header("connect-protocol-version", "1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let exchange = exchange(self.address, request.body(Full::from(body)).unwrap()).await;
        Frames {
            exchange,
            arrived: BytesMut::new(),
        }
    }
}

/// Encodes a message of a stream: flags, length, JSON.
pub(crate) fn frame(flag: u8, message: &str) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(flag);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message.as_bytes());
    frame.freeze()
}

/// Frames of a response.
pub(crate) struct Frames {
    pub(crate) exchange: Exchange,
    arrived: BytesMut,
}

/// One frame of a response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    Message(Value),
    /// End of the stream, with the status of the call.
    End(Value),
    /// The response was aborted.
    Torn,
}

impl Frames {
    /// Returns the next frame; [`Frame::Torn`] if the response was aborted.
    pub(crate) async fn next(&mut self) -> Frame {
        let Some((flag, message)) = self.next_raw().await else {
            return Frame::Torn;
        };
        let message = serde_json::from_slice(&message).unwrap();
        if flag & 2 == 0 {
            Frame::Message(message)
        } else {
            Frame::End(message)
        }
    }

    /// Returns flags and payload of the next frame, if there is one.
    pub(crate) async fn next_raw(&mut self) -> Option<(u8, Bytes)> {
        loop {
            if let Some(mut head) = self.arrived.get(..5) {
                let (flag, length) = (head.get_u8(), head.get_u32() as usize);
                if self.arrived.len() >= 5 + length {
                    return Some((
                        flag,
                        self.arrived.split_to(5 + length).freeze().split_off(5),
                    ));
                }
            }
            match self.exchange.response.body_mut().frame().await {
                Some(Ok(frame)) => self
                    .arrived
                    .extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Returns all messages and the status of the call.
    pub(crate) async fn all(mut self) -> (Vec<Value>, Frame) {
        let mut messages = Vec::new();
        loop {
            match self.next().await {
                Frame::Message(message) => messages.push(message),
                end => return (messages, end),
            }
        }
    }
}

/// A multiplexed HTTP/2 connection.
pub(crate) struct Http2 {
    sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
    connection: JoinHandle<()>,
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Http2 {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
                .await
                .unwrap();
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        Self { sender, connection }
    }

    /// Makes a server-streaming call; returns after the response headers.
    pub(crate) async fn stream(
        &mut self,
        sandbox: &Sandbox,
        procedure: &str,
        body: &Value,
    ) -> Incoming {
        let request = sandbox
            .request("POST", &format!("http://{}/{procedure}", sandbox.address))
            .header("content-type", "application/connect+json");
        let body = Full::from(frame(0, &body.to_string()));
        self.sender
            .send_request(request.body(body).unwrap())
            .await
            .unwrap()
            .into_body()
    }
}
