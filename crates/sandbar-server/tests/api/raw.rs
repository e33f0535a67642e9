//! HTTP/1.1 client without the RPC library.

use std::net::SocketAddr;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::Value;

pub(crate) use sandbar_testing::plain_http::{Answer, Exchange, exchange, send};

use crate::world::World;

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    send(
        address,
        Request::get(path)
            .header("host", "localhost")
            .body(Full::default())
            .unwrap(),
    )
    .await
}

impl World {
    /// Returns a request with everything set but the body.
    pub(crate) fn request(
        &self,
        method: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Request<Full<Bytes>> {
        let path = if method.contains('/') {
            format!("/{method}")
        } else {
            format!("/sandbar.v1.SandboxService/{method}")
        };
        Request::post(path)
            .header("host", "localhost")
            .header("content-type", content_type)
            .header("authorization", format!("Bearer {}", self.token))
            .body(Full::new(body.into()))
            .unwrap()
    }

    /// Makes a unary call in plain JSON.
    pub(crate) async fn call(&self, method: &str, body: &Value) -> Answer {
        send(
            self.address,
            self.request(method, "application/json", body.to_string()),
        )
        .await
    }

    /// Makes a streaming call in JSON over HTTP/1.1: all requests first, then all responses. The
    /// last value is the end of the stream, `{}` or with an `error`.
    pub(crate) async fn stream(&self, method: &str, requests: &[Value]) -> Vec<Value> {
        let answer = send(
            self.address,
            self.request(method, "application/connect+json", frames(requests)),
        )
        .await;
        assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
        unframe(&answer.body)
    }
}

pub(crate) fn frames(messages: &[Value]) -> Bytes {
    let mut frames = BytesMut::new();
    for message in messages {
        let text = message.to_string();
        frames.put_u8(0);
        frames.put_u32(u32::try_from(text.len()).unwrap());
        frames.put_slice(text.as_bytes());
    }
    frames.freeze()
}

pub(crate) fn unframe(mut body: &[u8]) -> Vec<Value> {
    let mut messages = Vec::new();
    while let Some((head, rest)) = body.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let (message, rest) = rest.split_at(length);
        messages.push(serde_json::from_slice(message).unwrap());
        body = rest;
        assert_eq!(
            head[0] == 2,
            body.is_empty(),
            "the end of the stream is its last frame"
        );
    }
    messages
}

pub(crate) fn header_name(name: &str) -> http::HeaderName {
    name.trim().parse().unwrap()
}
