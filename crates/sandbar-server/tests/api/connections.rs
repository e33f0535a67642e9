//! Connection timeouts.

use std::{net::SocketAddr, time::Duration};

use sandbar_client::WireProtocol;
use sandbar_server::ConnectionTimeouts;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{call_limits::Bounded, tls_files::Authority, world::World};

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
