//! Servers for the tests.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]

use std::{
    convert::Infallible,
    fmt::Write as _,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::world::World;

pub(super) const MEBIBYTE: usize = 1024 * 1024;

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// A server that returns the request it received; some paths do other things.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) connections: Arc<AtomicUsize>,
    /// Number of connections that have ended.
    pub(super) ended: watch::Receiver<usize>,
}

/// HTTP versions that a TLS server offers.
pub(super) enum Offers {
    Http1,
    Http2,
}

pub(super) async fn plain(world: &World) -> Server {
    start(world, None).await
}

/// Starts a TLS server with a certificate for `name`.
pub(super) async fn tls(world: &World, name: &str, offers: Offers) -> Server {
    let mut config = ServerConfig::clone(
        &world
            .server_ca
            .server_config(&name.parse().unwrap())
            .unwrap(),
    );
    config.alpn_protocols = match offers {
        Offers::Http1 => vec![b"http/1.1".to_vec()],
        Offers::Http2 => vec![b"h2".to_vec()],
    };
    start(world, Some(TlsAcceptor::from(Arc::new(config)))).await
}

async fn start(world: &World, tls: Option<TlsAcceptor>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (end, ended) = watch::channel(0);
    let server = Server {
        address: listener.local_addr().unwrap(),
        connections: Arc::default(),
        ended,
    };
    let connections = Arc::clone(&server.connections);
    world.run(async move {
        let mut tasks = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::SeqCst);
            let (tls, end) = (tls.clone(), end.clone());
            tasks.spawn(async move {
                match tls {
                    None => serve(stream).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream).await;
                        }
                    }
                }
                end.send_modify(|ended| *ended += 1);
            });
        }
    });
    server
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S) {
    let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
    let builder = auto::Builder::new(TokioExecutor::new());
    let _ = builder
        .serve_connection_with_upgrades(TokioIo::new(stream), service)
        .await;
}

/// Starts a server that announces keep-alive and closes after one answer.
pub(super) async fn one_answer_each(world: &World) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (end, ended) = watch::channel(0);
    let server = Server {
        address: listener.local_addr().unwrap(),
        connections: Arc::default(),
        ended,
    };
    let connections = Arc::clone(&server.connections);
    world.run(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::SeqCst);
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\n")
                && stream
                    .read_buf(&mut heard)
                    .await
                    .is_ok_and(|count| count > 0)
            {}
            let _ = stream.write_all(OK.as_bytes()).await;
            end.send_modify(|ended| *ended += 1);
        }
    });
    server
}

fn text(text: impl Into<String>) -> Body {
    Full::from(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

async fn answer(mut request: Request<Incoming>) -> Response<Body> {
    match request.uri().path() {
        "/same" => Response::new(request.into_body().boxed_unsync()),
        "/count" => {
            let mut count = 0;
            let mut body = request.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                count += frame.data_ref().map_or(0, Bytes::len);
            }
            Response::new(text(count.to_string()))
        }
        "/big" => {
            let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
            let chunks = stream::iter(0..64 * MEBIBYTE / chunk.len());
            Response::new(
                StreamBody::new(chunks.map(move |_| Ok(Frame::data(chunk.clone())))).boxed_unsync(),
            )
        }
        "/endless" => {
            let chunks = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(b"more"))));
            Response::new(StreamBody::new(chunks).boxed_unsync())
        }
        "/trailers" => {
            let trailers = [(
                header::HeaderName::from_static("x-sum"),
                HeaderValue::from_static("42"),
            )];
            let frames = [
                Ok(Frame::data(Bytes::from("body"))),
                Ok(Frame::trailers(trailers.into_iter().collect())),
            ];
            let mut response = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
            response
                .headers_mut()
                .insert(header::TRAILER, HeaderValue::from_static("x-sum"));
            response
        }
        "/tells" => {
            let mut response = Response::new(text("told"));
            if let Some(authorization) = request.headers().get(header::AUTHORIZATION) {
                response
                    .headers_mut()
                    .insert("x-you-said", authorization.clone());
                response
                    .extensions_mut()
                    .insert(hyper::ext::ReasonPhrase::from_static(
                        b"you-said hunter2-hunter2-hunter2",
                    ));
            }
            response
        }
        "/socket" => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let Ok(io) = upgrade.await else { return };
                let mut io = TokioIo::new(io);
                let mut buffer = [0; 1024];
                while let Ok(count @ 1..) = io.read(&mut buffer).await {
                    io.write_all(&buffer[..count]).await.unwrap();
                }
            });
            let mut response =
                Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response
                .headers_mut()
                .insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            response
                .headers_mut()
                .insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            response
        }
        _ => {
            let mut said = format!(
                "{} {} {:?}\n",
                request.method(),
                request.uri(),
                request.version()
            );
            for (name, value) in request.headers() {
                let _ = writeln!(
                    said,
                    "{name}: {}",
                    String::from_utf8_lossy(value.as_bytes())
                );
            }
            // Tests search the client's output for the secret, so that the server replaces it.
            let mut response =
                Response::new(text(said.replace(super::world::SECRET, "THE-SECRET")));
            response
                .headers_mut()
                .insert(header::CONNECTION, HeaderValue::from_static("x-private"));
            response
                .headers_mut()
                .insert("x-private", HeaderValue::from_static("1"));
            response
        }
    }
}

pub(super) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Starts a server that records every byte and answers each request alike.
pub(super) async fn recorder(
    world: &World,
    answer: &'static str,
) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let recorded: Arc<Mutex<Vec<u8>>> = Arc::default();
    let heard = Arc::clone(&recorded);
    world.run(async move {
        let mut tasks = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let heard = Arc::clone(&heard);
            tasks.spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    let is_whole = {
                        let mut heard = heard.lock().unwrap();
                        heard.extend_from_slice(&buffer[..count]);
                        heard.ends_with(b"\r\n\r\n")
                    };
                    if is_whole && stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, recorded)
}
