//! Connection timeouts.

use std::{net::SocketAddr, time::Duration};

use sandbar_client::WireProtocol;
use sandbar_core::{ErrorCode, ExecSpec};
use sandbar_server::ConnectionTimeouts;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use crate::{
    call_limits::Bounded,
    tls_files::Authority,
    world::{Ended, World, shell},
};

/// Timeout long enough for a request on a busy machine.
const SHORT: Duration = Duration::from_millis(300);
/// Timeout that no test reaches.
const LONG: Duration = Duration::from_hours(1);

const REQUEST: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Raw connection.
struct Line(TcpStream);

impl Line {
    async fn open(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Opens a connection from another peer address.
    async fn from(peer: [u8; 4], address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((peer, 0).into()).unwrap();
        Self(socket.connect(address).await.unwrap())
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a request and reads the response.
    async fn ask(&mut self) {
        self.say(REQUEST).await;
        self.answer().await;
    }

    async fn answer(&mut self) {
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok\n") {
            assert_ne!(
                self.0.read_buf(&mut answer).await.unwrap(),
                0,
                "{:?}",
                String::from_utf8_lossy(&answer)
            );
        }
    }

    /// Reads a response that begins like this, and its body.
    async fn reads(&mut self, beginning: &str) {
        let mut answer = Vec::new();
        let length = loop {
            assert_ne!(self.0.read_buf(&mut answer).await.unwrap(), 0);
            let text = String::from_utf8_lossy(&answer);
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                assert!(head.starts_with(beginning), "{head}");
                let length = head.lines().find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse()
                        .ok()
                });
                break head.len() + 4 + length.unwrap_or(0_usize);
            }
        };
        while answer.len() < length {
            assert_ne!(self.0.read_buf(&mut answer).await.unwrap(), 0);
        }
    }

    /// Waits until the peer has closed the connection.
    async fn closed(mut self) {
        // Closing with unread input resets the connection.
        let _ = self.0.read_to_end(&mut Vec::new()).await;
    }
}

#[test]
fn connection_without_a_complete_head_is_closed() {
    World::run(async |world| {
        let connection_timeouts = ConnectionTimeouts {
            head: SHORT,
            idle: LONG,
            idle_without_token: LONG,
            ..ConnectionTimeouts::default()
        };
        let server = Bounded::start(world, |config| {
            config.connection_timeouts = connection_timeouts;
        })
        .await;
        // The last but one is also half of the HTTP/2 preface.
        for part in [
            "",
            "GET /heal",
            &REQUEST[..REQUEST.len() - 2],
            "PRI * HTTP/2.0\r\n",
            "P",
        ] {
            let mut line = Line::open(server.address).await;
            line.say(part).await;
            line.closed().await;
            let mut line = Line::open(server.address).await;
            line.ask().await;
            // A connection may be idle between requests.
            if !part.is_empty() {
                line.say(part).await;
                line.closed().await;
            }
        }
        server.stop().await;
    });
}

#[test]
fn trickled_head_does_not_extend_the_head_timeout() {
    World::run(async |world| {
        let connection_timeouts = ConnectionTimeouts {
            head: SHORT,
            idle: LONG,
            idle_without_token: LONG,
            ..ConnectionTimeouts::default()
        };
        let server = Bounded::start(world, |config| {
            config.connection_timeouts = connection_timeouts;
        })
        .await;
        for asked_before in [false, true] {
            let mut line = Line::open(server.address).await;
            if asked_before {
                line.ask().await;
            }
            line.say("GET /healthz HTTP/1.1\r\n").await;
            let mut drops = tokio::time::interval(SHORT / 10);
            loop {
                drops.tick().await;
                if line.0.write_all(b"x: y\r\n").await.is_err() {
                    break;
                }
            }
        }
        server.stop().await;
    });
}

#[test]
fn idle_connection_outlives_the_head_timeout() {
    World::run(async |world| {
        let connection_timeouts = ConnectionTimeouts {
            head: SHORT,
            idle: LONG,
            idle_without_token: LONG,
            ..ConnectionTimeouts::default()
        };
        let server = Bounded::start(world, |config| {
            config.connection_timeouts = connection_timeouts;
        })
        .await;
        let mut resting = Line::open(server.address).await;
        let http2 = server.client(&world.token, WireProtocol::Grpc).await;
        for _ in 0..3 {
            resting.ask().await;
            // It takes almost the head timeout, and begins later.
            Line::open(server.address).await.closed().await;
        }
        // The shortest possible request, shorter than the HTTP/2 preface.
        let mut line = Line::open(server.address).await;
        line.say("GET /healthz HTTP/1.0\nconnection:keep-alive\n\n")
            .await;
        line.answer().await;
        Line::open(server.address).await.closed().await;
        line.ask().await;
        http2.capabilities().await.unwrap();
        server.stop().await;
    });
}

#[test]
fn idle_connection_is_closed_at_the_idle_timeout() {
    World::run(async |world| {
        let connection_timeouts = ConnectionTimeouts {
            head: LONG,
            idle: SHORT,
            idle_without_token: LONG,
            ..ConnectionTimeouts::default()
        };
        let server = Bounded::start(world, |config| {
            config.connection_timeouts = connection_timeouts;
        })
        .await;
        let mut line = Line::open(server.address).await;
        line.ask().await;
        line.closed().await;
        server.stop().await;
    });
}

#[test]
fn incomplete_tls_handshake_times_out() {
    let authority = Authority::new();
    World::run(async |world| {
        let connection_timeouts = ConnectionTimeouts {
            handshake: SHORT,
            head: LONG,
            idle: LONG,
            idle_without_token: LONG,
        };
        let tls = authority.server("server").tls();
        let server = Bounded::start(world, |config| {
            (config.connection_timeouts, config.tls) = (connection_timeouts, Some(tls));
        })
        .await;
        // A truncated TLS handshake record.
        for part in ["", "\x16\x03\x01\x01\x00\x01"] {
            let mut line = Line::open(server.address).await;
            line.say(part).await;
            line.closed().await;
        }
        server.stop().await;
    });
}

#[test]
fn connection_without_a_token_rests_for_a_short_time() {
    World::run(async |world| {
        let connection_timeouts = ConnectionTimeouts {
            head: SHORT,
            idle: LONG,
            idle_without_token: SHORT,
            ..ConnectionTimeouts::default()
        };
        let server = Bounded::start(world, |config| {
            config.connection_timeouts = connection_timeouts;
        })
        .await;
        let call = |token: &str| {
            format!(
                "GET /metrics HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
            )
        };
        let mut known = Line::open(server.address).await;
        known.say(&call(&world.token)).await;
        known.reads("HTTP/1.1 200 ").await;
        let known_http2 = server.client(&world.token, WireProtocol::Grpc).await;
        known_http2.capabilities().await.unwrap();
        for _ in 0..2 {
            let mut line = Line::open(server.address).await;
            line.ask().await;
            line.closed().await;
            let mut wrong = Line::open(server.address).await;
            wrong.say(&call("wrong")).await;
            wrong.reads("HTTP/1.1 401 ").await;
            wrong.closed().await;
            // HTTP/2: the preface and empty settings, and no request.
            let mut line = Line::open(server.address).await;
            line.say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
                .await;
            line.closed().await;
        }
        known.say(&call(&world.token)).await;
        known.reads("HTTP/1.1 200 ").await;
        known_http2.capabilities().await.unwrap();
        server.stop().await;
    });
}

#[test]
fn peer_with_many_connections_keeps_no_other_out() {
    World::run(async |world| {
        let server = Bounded::start(world, |config| config.max_connections = 16).await;
        let id = world
            .session(&world.client(WireProtocol::Connect).await)
            .await
            .id;
        let agent = world.token("agent", &[&format!("session:{id}")]).await;
        let works = async |peer: &str| {
            // A new client, which opens a connection of its own.
            let client = server.client(&agent, WireProtocol::Connect).await;
            let command = client.exec(&id, shell("echo hi")).await.unwrap();
            assert_eq!(Ended::of(command).await.text(), "hi\n", "{peer}");
        };
        let mut held = Vec::new();
        for peer in [
            [127, 0, 0, 2],
            [127, 0, 0, 1],
            [127, 0, 0, 3],
            [127, 0, 0, 4],
        ] {
            for _ in 0..12 {
                let mut line = Line::from(peer, server.address).await;
                line.ask().await;
                held.push(line);
            }
            works(&format!("{peer:?}")).await;
        }
        // Of each peer, no more than its share is left.
        for closed in held.drain(..8) {
            closed.closed().await;
        }
        works("after").await;
        server.stop().await;
    });
}

#[test]
fn token_with_many_connections_keeps_no_other_out() {
    World::run(async |world| {
        let server = Bounded::start(world, |config| config.max_connections = 16).await;
        let admin = world.client(WireProtocol::Connect).await;
        let (id, other) = (
            world.session(&admin).await.id,
            world.session(&admin).await.id,
        );
        let hoarder = world.token("hoarder", &[&format!("session:{id}")]).await;
        let neighbour = world
            .token("neighbour", &[&format!("session:{other}")])
            .await;
        let spec = || ExecSpec::new(["/bin/sleep", "1000"]);
        let mut held = Vec::new();
        // Every client has a connection of its own, with a stream on it.
        for _ in 0..4 {
            let client = server.client(&hoarder, WireProtocol::Connect).await;
            let command = client.exec(&id, spec()).await.unwrap();
            held.push((client, command));
        }
        let client = server.client(&hoarder, WireProtocol::Connect).await;
        let error = client.exec(&id, spec()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::TooManyCalls, "{error:?}");
        assert!(
            error.hint().unwrap().contains("max_connections"),
            "{error:?}"
        );
        let client = server.client(&neighbour, WireProtocol::Connect).await;
        let command = client.exec(&other, shell("echo hi")).await.unwrap();
        assert_eq!(Ended::of(command).await.text(), "hi\n");
        server.stop().await;
    });
}
