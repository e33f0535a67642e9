//! Ten thousand malformed requests: each gets a client error, or its connection is closed.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandbar_client::WireProtocol;
use sandbar_core::{PageRequest, SessionFilter};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    malformed_requests::{Generator, Sent},
    raw::Answer,
    world::{Ended, PROTOCOLS, World, shell},
};

/// Number of requests: ten thousand in a full run.
fn requests() -> u64 {
    sandbar_testing::scaled(10_000, 1000)
}

const AT_ONCE: u64 = 6;

/// Timeout of one request, for the slowest machine.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Limit on memory growth: one message of 16 MiB per connection, and some overhead.
const MAX_MEMORY_GROWTH: u64 = 400 << 20;

/// RPC codes of server errors.
const OUR_FAULT: [&str; 4] = ["internal", "unknown", "data_loss", "unavailable"];
/// Cases in which the protocol itself requires `internal`.
const SPECIFIED: &str = "received compressed message without";
const OUR_FAULT_IN_GRPC: [&str; 4] = ["13", "2", "15", "14"];

static PANICS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn malformed_requests_get_client_errors_only() {
    let seed = std::env::var("SANDBAR_MALFORMED_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}; again with SANDBAR_MALFORMED_SEED={seed}");
    // The panic hook runs before any handler that catches the panic.
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        before(panic);
    }));
    World::run_with(
        |_, config| config.max_sessions = 4,
        async |world| {
            let made = world
                .call(
                    "CreateSession",
                    &json!({"baseSnapshot": "small", "sessionId": "box"}),
                )
                .await;
            assert!(made.status.is_success(), "{:?}", made.body);
            let memory = resident();
            let (answered, closed) = (AtomicU64::new(0), AtomicU64::new(0));
            let faults = Mutex::new(BTreeMap::new());
            let workers = (0..AT_ONCE).map(|worker| {
                let (answered, closed, faults) = (&answered, &closed, &faults);
                async move {
                    let mut caller = Caller::new(world.address);
                    for number in (0..requests()).filter(|number| number % AT_ONCE == worker) {
                        let mut generator =
                            Generator::new(seed ^ number, &world.token, &world.address.to_string());
                        let sent = generator.next();
                        let shown = format!("{sent:?}").chars().take(2000).collect::<String>();
                        let counter = match timeout(REQUEST_TIMEOUT, caller.make(sent)).await {
                            Err(late) => panic!(
                                "request {number} of seed {seed} is never answered: {shown}: {late}"
                            ),
                            Ok(None) => closed,
                            Ok(Some(answer)) => {
                                if let Some(fault) = fault(&answer) {
                                    let told = format!(
                                        "request {number}: {shown}\n{}",
                                        shown_answer(&answer)
                                    );
                                    faults.lock().unwrap().entry(fault).or_insert(told);
                                }
                                answered
                            }
                        };
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            futures::future::join_all(workers).await;
            println!(
                "{} answered, {} closed, {} MiB more",
                answered.load(Ordering::Relaxed),
                closed.load(Ordering::Relaxed),
                resident().saturating_sub(memory) >> 20
            );
            let faults = faults.into_inner().unwrap();
            for (fault, example) in &faults {
                println!("{fault}\n  {example}");
            }
            assert!(faults.is_empty(), "seed {seed}: {:?}", faults.keys());
            assert_eq!(PANICS.load(Ordering::SeqCst), 0, "something panicked");
            assert!(
                resident().saturating_sub(memory) < MAX_MEMORY_GROWTH,
                "memory is not bounded"
            );
            assert!(
                answered.load(Ordering::Relaxed) > requests() / 2,
                "most requests are HTTP and have an answer"
            );

            // The server still works.
            for protocol in PROTOCOLS {
                let client = world.client(protocol).await;
                assert!(
                    client
                        .list_bases()
                        .await
                        .unwrap()
                        .iter()
                        .any(|base| base.name.as_str() == "small")
                );
            }
            // Some requests were valid by chance: there may be other sessions now, in any state.
            let client = world.client(WireProtocol::Connect).await;
            let (everybody, page) = (SessionFilter::default(), PageRequest::default());
            for session in client.list_sessions(&everybody, &page).await.unwrap().items {
                client.destroy_session(&session.id).await.unwrap();
            }
            let session = world.session(&client).await;
            let command = client.exec(&session.id, shell("echo well")).await.unwrap();
            assert_eq!(Ended::of(command).await.text(), "well\n");
        },
    );
}

/// Returns the problem of a response, if any.
fn fault(answer: &Answer) -> Option<String> {
    match answer.status {
        // Unknown methods and compressions are `unimplemented`, and the caller may have set a
        // deadline.
        StatusCode::NOT_IMPLEMENTED
        | StatusCode::GATEWAY_TIMEOUT
        | StatusCode::HTTP_VERSION_NOT_SUPPORTED => {
            return None;
        }
        status if status.is_server_error() => {
            return Some(format!(
                "answered {status}: {}",
                String::from_utf8_lossy(&answer.body)
            ));
        }
        _ => {}
    }
    let grpc = answer
        .headers
        .get("grpc-status")
        .and_then(|status| status.to_str().ok())
        .map(str::to_owned);
    let text = String::from_utf8_lossy(&answer.body);
    let message = answer
        .headers
        .get("grpc-message")
        .and_then(|message| message.to_str().ok())
        .unwrap_or_default();
    if text.contains(SPECIFIED) || message.contains(SPECIFIED) {
        return None;
    }
    let in_body = text
        .lines()
        .find_map(|line| Some(line.rsplit_once("grpc-status:")?.1.trim().to_owned()));
    if let Some(status) = grpc
        .or(in_body)
        .filter(|status| OUR_FAULT_IN_GRPC.contains(&status.as_str()))
    {
        return Some(format!(
            "ended with grpc-status {status}: {message}{}",
            &text[text.find("grpc-message").unwrap_or(text.len())..]
        ));
    }
    // The last frame of a Connect stream.
    let end = text
        .rfind("{\"error\"")
        .and_then(|start| serde_json::from_str::<Value>(&text[start..]).ok());
    let code = end.as_ref().and_then(|end| end["error"]["code"].as_str());
    code.filter(|code| OUR_FAULT.contains(code)).map(|code| {
        format!(
            "ended with {code}: {:?}",
            end.as_ref().map(|end| &end["error"]["message"])
        )
    })
}

fn shown_answer(answer: &Answer) -> String {
    format!(
        "{} {:?}\n{}",
        answer.status,
        answer.headers,
        String::from_utf8_lossy(&answer.body)
    )
}

/// Returns the memory of this process, which runs the server.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Client that reuses its connections.
struct Caller {
    address: SocketAddr,
    http1: Option<http1::SendRequest<Full<Bytes>>>,
    http2: Option<http2::SendRequest<Full<Bytes>>>,
}

impl Caller {
    const fn new(address: SocketAddr) -> Self {
        Self {
            address,
            http1: None,
            http2: None,
        }
    }

    /// Returns the response; `None` when the connection was closed without one.
    async fn make(&mut self, sent: Sent) -> Option<Answer> {
        match sent {
            Sent::Request {
                request,
                by_http2: true,
            } => self.by_http2(*request).await,
            Sent::Request {
                request,
                by_http2: false,
            } => self.by_http1(*request).await,
            Sent::Bytes(bytes) => self.bytes(&bytes).await,
        }
    }

    async fn by_http1(&mut self, mut request: Request<Full<Bytes>>) -> Option<Answer> {
        let path = request.uri().path_and_query().unwrap().clone();
        let host = request.uri().authority().unwrap().as_str().parse().unwrap();
        *request.uri_mut() = path.into();
        request.headers_mut().insert("host", host);
        if self
            .http1
            .as_ref()
            .is_none_or(http1::SendRequest::is_closed)
        {
            let stream = TcpStream::connect(self.address).await.unwrap();
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            self.http1 = Some(sender);
        }
        let sender = self.http1.as_mut().unwrap();
        let answer = match sender.ready().await {
            Ok(()) => read(is_watch(&request), sender.send_request(request).await).await,
            Err(_) => None,
        };
        if answer.is_none() {
            self.http1 = None;
        }
        answer
    }

    async fn by_http2(&mut self, mut request: Request<Full<Bytes>>) -> Option<Answer> {
        // HTTP/2 has no such header.
        request.headers_mut().remove("expect");
        if self
            .http2
            .as_ref()
            .is_none_or(http2::SendRequest::is_closed)
        {
            let stream = TcpStream::connect(self.address).await.unwrap();
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
            tokio::spawn(connection);
            self.http2 = Some(sender);
        }
        let sender = self.http2.as_mut().unwrap();
        let answer = match sender.ready().await {
            Ok(()) => read(is_watch(&request), sender.send_request(request).await).await,
            Err(_) => None,
        };
        if answer.is_none() {
            self.http2 = None;
        }
        answer
    }

    /// Sends all bytes, shuts down the write side, and reads to the end.
    async fn bytes(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut heard = Vec::new();
        // The server may close before all bytes are sent.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut heard).await;
        let text = String::from_utf8_lossy(&heard).into_owned();
        let status = text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        Some(Answer {
            status,
            headers: http::HeaderMap::new(),
            body: heard.into(),
        })
    }
}

/// Reports whether the request is for an endless stream.
fn is_watch<B>(request: &Request<B>) -> bool {
    request.uri().path().ends_with("/WatchEvents")
}

async fn read(
    is_watch: bool,
    response: hyper::Result<http::Response<hyper::body::Incoming>>,
) -> Option<Answer> {
    let response = response.ok()?;
    let (status, mut headers) = (response.status(), response.headers().clone());
    let mut body = response.into_body();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame.ok()?.into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => headers.extend(frame.into_trailers().unwrap_or_default()),
        }
        if is_watch {
            break;
        }
    }
    Some(Answer {
        status,
        headers,
        body: bytes.freeze(),
    })
}
