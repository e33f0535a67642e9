//! How long a connection may say nothing, or half of something.

use std::{net::SocketAddr, time::Duration};

use sandbar_client::WireProtocol;
use sandbar_server::Patience;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{call_limits::Bounded, tls_files::Authority, world::World};

/// Long enough for a request on a busy machine.
const SHORT: Duration = Duration::from_millis(300);
/// No test goes on for so long.
const LONG: Duration = Duration::from_hours(1);

const REQUEST: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A connection a test speaks over by hand.
struct Line(TcpStream);

impl Line {
    async fn open(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Asks for something and reads the answer.
    async fn ask(&mut self) {
        self.say(REQUEST).await;
        self.answer().await;
    }

    async fn answer(&mut self) {
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok\n") {
            assert_ne!(self.0.read_buf(&mut answer).await.unwrap(), 0, "{:?}", String::from_utf8_lossy(&answer));
        }
    }

    /// Returns when the other side has closed it.
    async fn closed(mut self) {
        // A connection that is closed with something unread in it is reset.
        let _ = self.0.read_to_end(&mut Vec::new()).await;
    }
}

#[test]
fn a_connection_that_says_nothing_or_half_a_head_is_closed() {
    World::run(async |world| {
        let patience = Patience { head: SHORT, idle: LONG, ..Patience::default() };
        let server = Bounded::start(world, |config| config.patience = patience).await;
        // The last but one is also half of what HTTP/2 begins with.
        for part in ["", "GET /heal", &REQUEST[..REQUEST.len() - 2], "PRI * HTTP/2.0\r\n", "P"] {
            let mut line = Line::open(server.address).await;
            line.say(part).await;
            line.closed().await;
            let mut line = Line::open(server.address).await;
            line.ask().await;
            // Nothing at all is allowed between requests.
            if !part.is_empty() {
                line.say(part).await;
                line.closed().await;
            }
        }
        server.stop().await;
    });
}

#[test]
fn a_head_is_not_waited_for_longer_because_a_little_of_it_comes_now_and_then() {
    World::run(async |world| {
        let patience = Patience { head: SHORT, idle: LONG, ..Patience::default() };
        let server = Bounded::start(world, |config| config.patience = patience).await;
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
fn a_connection_rests_between_requests_for_much_longer_than_a_head_may_take() {
    World::run(async |world| {
        let patience = Patience { head: SHORT, idle: LONG, ..Patience::default() };
        let server = Bounded::start(world, |config| config.patience = patience).await;
        let mut resting = Line::open(server.address).await;
        let http2 = server.client(&world.token, WireProtocol::Grpc).await;
        for _ in 0..3 {
            resting.ask().await;
            // It takes as long as a head may take, and begins later.
            Line::open(server.address).await.closed().await;
        }
        // The shortest request there is: shorter than what HTTP/2 begins with.
        let mut line = Line::open(server.address).await;
        line.say("GET /healthz HTTP/1.0\nconnection:keep-alive\n\n").await;
        line.answer().await;
        Line::open(server.address).await.closed().await;
        line.ask().await;
        http2.capabilities().await.unwrap();
        server.stop().await;
    });
}

#[test]
fn a_connection_that_rests_for_too_long_is_closed() {
    World::run(async |world| {
        let patience = Patience { head: LONG, idle: SHORT, ..Patience::default() };
        let server = Bounded::start(world, |config| config.patience = patience).await;
        let mut line = Line::open(server.address).await;
        line.ask().await;
        line.closed().await;
        server.stop().await;
    });
}

#[test]
fn half_a_handshake_is_not_waited_for() {
    let authority = Authority::new();
    World::run(async |world| {
        let patience = Patience { handshake: SHORT, head: LONG, idle: LONG };
        let tls = authority.server("server").tls();
        let server = Bounded::start(world, |config| (config.patience, config.tls) = (patience, Some(tls))).await;
        // A record of a handshake that says it is longer.
        for part in ["", "\x16\x03\x01\x01\x00\x01"] {
            let mut line = Line::open(server.address).await;
            line.say(part).await;
            line.closed().await;
        }
        server.stop().await;
    });
}
