//! HTTP that is well formed and too much: headers, frames, nesting.

use std::net::SocketAddr;

use http::StatusCode;
use sandbar_client::WireProtocol;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    raw::{get, send},
    world::World,
};

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Encodes an HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Encodes `GET / HTTP/2` for the host `a`, with HPACK's static table.
fn head() -> Vec<u8> {
    vec![0x82, 0x86, 0x84, 0x01, 0x01, b'a']
}

/// Sends bytes to the server and returns the kinds of the frames it answers with, until it closes.
async fn frames_until_closed(address: SocketAddr, sent: Vec<u8>) -> Vec<u8> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let sending = tokio::spawn(async move {
        // Fails when the server has closed the connection.
        let _ = write.write_all(&sent).await;
        write
    });
    let mut answer = Vec::new();
    // Closing with unread input resets the connection.
    let _ = read.read_to_end(&mut answer).await;
    drop(sending.await.unwrap());
    let (mut rest, mut kinds) = (answer.as_slice(), Vec::new());
    while rest.len() >= 9 {
        let length = usize::from(rest[1]) << 8 | usize::from(rest[2]) | usize::from(rest[0]) << 16;
        kinds.push(rest[3]);
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    kinds
}

fn opened() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// The server still answers, and has no connection of the attack left.
async fn still_serves(world: &World) {
    let client = world.client(WireProtocol::Grpc).await;
    client.capabilities().await.unwrap();
}

#[test]
fn streams_reset_in_bulk_close_the_connection() {
    World::run(async |world| {
        let mut sent = opened();
        for stream in (1..20_000).step_by(2) {
            sent.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &head()));
            sent.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }
        let kinds = frames_until_closed(world.address, sent).await;
        assert!(kinds.is_empty() || kinds.contains(&GOAWAY), "{kinds:?}");
        still_serves(world).await;
    });
}

#[test]
fn endless_header_block_closes_the_connection() {
    World::run(async |world| {
        let mut sent = opened();
        sent.extend(frame(HEADERS, 0, 1, &head()));
        // A literal header of 100 bytes in each.
        let mut field = vec![0x00, 0x01, b'x', 100];
        field.extend([b'y'; 100]);
        for _ in 0..100_000 {
            sent.extend(frame(CONTINUATION, 0, 1, &field));
        }
        let kinds = frames_until_closed(world.address, sent).await;
        assert!(kinds.is_empty() || kinds.contains(&GOAWAY), "{kinds:?}");
        still_serves(world).await;
    });
}

#[test]
fn too_many_or_too_large_headers_are_refused() {
    World::run(async |world| {
        let many = "x: y\r\n".repeat(1000);
        let large = format!("x: {}\r\n", "y".repeat(1 << 20));
        for headers in [many, large] {
            let mut stream = TcpStream::connect(world.address).await.unwrap();
            let request = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
            // The server may close the connection before it has read everything.
            let _ = stream.write_all(request.as_bytes()).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            let answer = String::from_utf8_lossy(&answer);
            assert!(
                answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
                "{answer}"
            );
        }
        assert_eq!(get(world.address, "/healthz").await.status, StatusCode::OK);
    });
}

#[test]
fn deeply_nested_json_is_refused() {
    World::run(async |world| {
        let depth = 100_000;
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let params = format!(
            r#"{{"sessionId":"a","toolName":"bash","toolCallId":"1","params":{{"x":{nested}}}}}"#
        );
        let unknown = format!(r#"{{"sessionId":"a","unknown":{nested}}}"#);
        for (call, body) in [
            ("ExecuteTool", params),
            ("GetSession", unknown),
            ("GetSession", nested.clone()),
        ] {
            let answer = send(world.address, world.request(call, "application/json", body)).await;
            assert!(answer.status.is_client_error(), "{call}: {}", answer.status);
        }
        // MCP: the body, and an id that is an array of arrays.
        let id = format!(r#"{{"jsonrpc":"2.0","method":"ping","id":{nested}}}"#);
        let long = format!(
            r#"{{"jsonrpc":"2.0","method":"ping","id":"{}"}}"#,
            "x".repeat(1 << 20)
        );
        for body in [nested, id] {
            let mut request = world.request("/mcp", "application/json", body);
            *request.uri_mut() = "/mcp".parse().unwrap();
            let answer = send(world.address, request).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text());
        }
        let mut request = world.request("/mcp", "application/json", long);
        *request.uri_mut() = "/mcp".parse().unwrap();
        let answer = send(world.address, request).await;
        assert!(
            answer.status.is_client_error()
                || answer.json()["id"].as_str().map(str::len) == Some(1 << 20)
                || answer.json()["error"] != Value::Null,
            "{}",
            answer.status
        );
        still_serves(world).await;
    });
}
