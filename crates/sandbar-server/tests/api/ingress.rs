//! Forwarding of requests to ports of sessions.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, channel::mpsc};
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::{
    body::{Body, Frame, Incoming},
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandbar_core::SessionId;
use sandbar_testing::report_skip;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    ingress_world::{PORT, Ports},
    world::World,
};

const LARGE: usize = 64 << 20;

/// Request body with a sender for its chunks.
pub(crate) fn pieces() -> (
    mpsc::Sender<Bytes>,
    impl Body<Data = Bytes, Error = std::io::Error> + Send + 'static,
) {
    let (sender, receiver) = mpsc::channel(0);
    (
        sender,
        StreamBody::new(receiver.map(|piece| Ok(Frame::data(piece)))),
    )
}

/// Sends a request on a new connection.
async fn send<B>(world: &World, request: Request<B>) -> Response<Incoming>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let stream = TcpStream::connect(world.address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

#[test]
fn host_names_tell_sessions_on_the_same_port_apart() {
    World::run_isolated(async |world| {
        let (one, _) = world.web_session("one", Ports::Public).await;
        let (two, _) = world.web_session("t-w_2", Ports::Public).await;
        for (session, name) in [(&one, "one"), (&two, "t-w_2"), (&one, "one")] {
            let answer = world.ask(world.to(session, "GET", "/x?y=1")).await;
            assert_eq!(
                (answer.status, answer.text()),
                (StatusCode::OK, &*format!("{name} got GET /x?y=1"))
            );
            assert_eq!(answer.headers["x-name"], name);
            assert!(
                !answer.headers.contains_key("keep-alive")
                    && !answer.headers.contains_key("x-api-version")
            );
        }
        let upper = Request::get("/").header("host", format!("{PORT}-ONE.LocalHost"));
        assert_eq!(world.ask(upper).await.text(), "one got GET /");
        // Ids that fit in no host name are reached by headers.
        let (odd, _) = world.web_session("Odd.One", Ports::Public).await;
        let by_headers = Request::put("/z")
            .header("host", world.address.to_string())
            .header("x-sandbar-session", odd.as_str())
            .header("x-sandbar-port", PORT);
        assert_eq!(world.ask(by_headers).await.text(), "Odd.One got PUT /z");

        let head = world.ask(world.to(&one, "HEAD", "/x")).await;
        assert_eq!(
            (head.status, &head.headers["content-length"]),
            (StatusCode::OK, &"15".parse().unwrap())
        );
        assert!(head.body.is_empty());
        assert_eq!(
            world.ask(world.to(&one, "GET", "/early")).await.text(),
            "late"
        );
    });
}

#[test]
fn ingress_connection_carries_many_requests() {
    World::run_isolated(async |world| {
        let (one, _) = world.web_session("one", Ports::Public).await;
        let stream = TcpStream::connect(world.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        for number in 0..20 {
            sender.ready().await.unwrap();
            let request = world
                .to(&one, "POST", &format!("/{number}"))
                .body(Full::new(Bytes::from("body")))
                .unwrap();
            let answer = sender
                .send_request(request)
                .await
                .unwrap()
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes();
            assert_eq!(answer, format!("one got POST /{number}"));
        }
    });
}

#[test]
fn session_sees_the_peer_and_no_host_credentials() {
    World::run_isolated(async |world| {
        let (one, _) = world.web_session("one", Ports::Private).await;
        let host = world.name_of(&one);
        let traffic = world.host.port_access(&one).await.unwrap().token;
        let request = world
            .to(&one, "GET", "/head")
            .header("x-sandbar-token", &world.token)
            .header("x-sandbar-traffic-token", traffic.reveal())
            .header("authorization", format!("Bearer {}", world.token))
            .header(
                "cookie",
                format!("a=1; sandbar_traffic_token={}", traffic.reveal()),
            )
            .header("connection", "keep-alive, x-hop")
            .header("x-hop", "1")
            .header("x-mine", "yes");
        let answer = world.ask(request).await;
        let seen = answer.text().to_ascii_lowercase();
        for line in [
            &*format!("host: {host}"),
            &*format!("x-forwarded-host: {host}"),
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-proto: http",
            "x-mine: yes",
            "cookie: a=1",
        ] {
            assert!(seen.contains(&format!("\r\n{line}\r\n")), "{line}: {seen}");
        }
        for secret in [
            &*world.token,
            traffic.reveal(),
            "x-sandbar",
            "authorization",
            "x-hop",
        ] {
            assert!(!seen.contains(secret), "{secret}: {seen}");
        }
        let own = world
            .to(&one, "GET", "/head")
            .header("x-sandbar-token", &world.token)
            .header("authorization", "Bearer of the application");
        assert!(
            world
                .ask(own)
                .await
                .text()
                .contains("Authorization: Bearer of the application\r\n")
        );
    });
}

#[test]
fn ingress_streams_large_bodies_in_both_directions() {
    World::run_isolated(async |world| {
        let (one, _) = world.web_session("one", Ports::Public).await;
        let piece = Bytes::from((0..=255u8).cycle().take(1 << 20).collect::<Vec<u8>>());
        let sum = (LARGE / 256 * (255 * 256 / 2)) % (1 << 32);
        // Once with `content-length`, once chunked.
        for sized in [true, false] {
            let (mut sender, body) = pieces();
            let mut request = world.to(&one, "POST", "/count");
            if sized {
                request = request.header("content-length", LARGE);
            }
            let feed = async {
                for _ in 0..LARGE / piece.len() {
                    sender.send(piece.clone()).await.unwrap();
                }
                sender.close_channel();
            };
            let (answer, ()) = tokio::join!(send(world, request.body(body).unwrap()), feed);
            let answer = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(answer, format!("{LARGE} {sum}"), "sized: {sized}");
        }
        let mut answer = send(
            world,
            world
                .to(&one, "GET", "/big")
                .body(Full::<Bytes>::default())
                .unwrap(),
        )
        .await;
        let mut length = 0;
        while let Some(frame) = answer.body_mut().frame().await {
            let bytes = frame.unwrap().into_data().unwrap();
            assert!(
                bytes
                    .iter()
                    .zip(length..)
                    .all(|(byte, place)| usize::from(*byte) == place % 256)
            );
            length += bytes.len();
        }
        assert_eq!(length, LARGE);
    });
}

#[test]
fn response_streams_during_the_request_with_trailers() {
    World::run_isolated(async |world| {
        let (one, _) = world.web_session("one", Ports::Public).await;
        let (mut sender, body) = pieces();
        let request = world
            .to(&one, "POST", "/echo")
            .header("te", "trailers")
            .body(body)
            .unwrap();
        let answer = send(world, request);
        let (mut answer, ()) =
            tokio::join!(answer, async { sender.send("first".into()).await.unwrap() });
        for piece in ["first", "second", "third"] {
            if piece != "first" {
                sender.send(piece.into()).await.unwrap();
            }
            let heard = answer
                .body_mut()
                .frame()
                .await
                .unwrap()
                .unwrap()
                .into_data()
                .unwrap();
            assert_eq!(heard, piece);
        }
        sender.close_channel();
        let trailers = answer
            .body_mut()
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_trailers()
            .unwrap();
        assert_eq!(trailers["x-heard"], "16");
    });
}

/// Requests a WebSocket upgrade, and returns the connection after the response head.
async fn open_socket(world: &World, session: &SessionId) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let request = format!(
        "GET /socket HTTP/1.1\r\nHost: {}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nat once ",
        world.name_of(session)
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(stream.read_u8().await.unwrap()));
    }
    (head, stream)
}

#[test]
fn websocket_upgrade_is_tunneled_until_both_sides_close() {
    World::run_isolated(async |world| {
        let (one, _) = world.web_session("one", Ports::Public).await;
        let (answer, mut socket) = open_socket(world, &one).await;
        let lower = answer.to_ascii_lowercase();
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(
            lower.contains("\r\nupgrade: websocket\r\n")
                && lower.contains("\r\nconnection: upgrade\r\n"),
            "{answer}"
        );
        assert!(!lower.contains("content-length"), "{answer}");
        let mut heard = vec![0; "hello AT ONCE ".len()];
        socket.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, b"hello AT ONCE ");
        let long = "x".repeat(1 << 20);
        let (mut reader, mut writer) = socket.split();
        let (said, heard) = tokio::join!(
            async {
                writer.write_all(long.as_bytes()).await?;
                writer.shutdown().await
            },
            async {
                let mut heard = String::new();
                reader.read_to_string(&mut heard).await.map(|_| heard)
            }
        );
        said.unwrap();
        assert_eq!(heard.unwrap(), format!("{} bye", long.to_uppercase()));

        // Server shutdown closes the tunnel.
        let (_, mut socket) = open_socket(world, &one).await;
        world.stop.cancel();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest).await;
        assert!(!rest.ends_with(b"bye"));
    });
}

#[test]
fn http2_reaches_http1_and_grpc_servers() {
    World::run_isolated(async |world| {
        let (web, _) = world.web_session("web", Ports::Public).await;
        let stream = TcpStream::connect(world.address).await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let request = |session: &SessionId, path: &str| {
            Request::post(format!("http://{}{path}", world.name_of(session)))
                .version(Version::HTTP_2)
        };
        let many = (0..20).map(|number| {
            let request = request(&web, &format!("/{number}"))
                .body(Full::new(Bytes::from("body")))
                .unwrap();
            let mut sender = sender.clone();
            async move {
                sender
                    .send_request(request)
                    .await
                    .unwrap()
                    .into_body()
                    .collect()
                    .await
                    .unwrap()
                    .to_bytes()
            }
        });
        for (number, answer) in futures::future::join_all(many)
            .await
            .into_iter()
            .enumerate()
        {
            assert_eq!(answer, format!("web got POST /{number}"));
        }
        let seen = sender
            .clone()
            .send_request(request(&web, "/head").body(Full::default()).unwrap())
            .await
            .unwrap();
        let seen = seen.into_body().collect().await.unwrap().to_bytes();
        let host = format!("\r\nHost: {}\r\n", world.name_of(&web));
        assert!(String::from_utf8_lossy(&seen).contains(&host), "{seen:?}");

        if !std::path::Path::new("/usr/bin/node").exists() {
            report_skip(
                "ingress::http2_reaches_http1_and_grpc_servers",
                "there is no node to be a server",
            );
            return;
        }
        let grpc = world.isolated_session("grpc", Ports::Public).await;
        let argv = ["/usr/bin/node", "grpc.js", &PORT.to_string()];
        world
            .serve_in(&grpc, "grpc.js", include_str!("servers/grpc.js"), &argv)
            .await;
        let request = request(&grpc, "/a.Service/Call")
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let request = request.body(Full::new(Bytes::from("message"))).unwrap();
        let answer = sender.clone().send_request(request).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/grpc");
        let answer = answer.into_body().collect().await.unwrap();
        let trailers = answer.trailers().unwrap().clone();
        assert_eq!(
            (&trailers["grpc-status"], &trailers["x-path"]),
            (&"0".parse().unwrap(), &"/a.Service/Call".parse().unwrap())
        );
        assert_eq!(answer.to_bytes(), "message");
    });
}
