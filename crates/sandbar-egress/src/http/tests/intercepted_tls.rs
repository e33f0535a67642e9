//! HTTPS that the gateway terminates.

use std::{net::SocketAddr, sync::Arc, sync::atomic::Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use sandbar_core::NetworkVerdict;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    servers::{self, Offers},
    world::{SECRET, World, with_secret},
};

/// Connects as a client that trusts only the session CA.
async fn connect(
    world: &World,
    address: SocketAddr,
    name: &str,
    protocol: &[u8],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(world.trust()).unwrap())
        .unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

/// Sends one request on a new connection.
async fn say(world: &World, address: SocketAddr, request: &str) -> String {
    let mut stream = connect(world, address, "api.example", b"http/1.1").await;
    stream
        .write_all(
            request
                .replacen("\r\n", "\r\nConnection: close\r\n", 1)
                .as_bytes(),
        )
        .await
        .unwrap();
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard).await;
    String::from_utf8_lossy(&heard).into_owned()
}

#[tokio::test]
async fn secret_replaces_the_header_of_the_session() {
    let world = World::new(with_secret("api.example"));
    let server = servers::tls(&world, "api.example", Offers::Http1).await;
    world.leads("api.example", server.address);
    let address = world.intercepted("api.example").await;
    for mine in [
        "",
        "Authorization: mine\r\nauthorization: mine too\r\n",
        "Connection: authorization\r\n",
    ] {
        let heard = say(
            &world,
            address,
            &format!("GET / HTTP/1.1\r\nHost: api.example\r\n{mine}\r\n"),
        )
        .await;
        assert!(
            heard.contains("\nauthorization: Bearer THE-SECRET\n") && !heard.contains("mine"),
            "{heard}"
        );
        assert_eq!(heard.matches("authorization").count(), 1, "{heard}");
    }
    assert_eq!(world.decided(), ["allow tls api.example:443 key"; 3]);
    let decisions = world.context.decisions.lock().unwrap();
    assert_eq!(decisions[0].address, Some(server.address));
    assert!(!format!("{decisions:?}").contains(SECRET));
}

#[tokio::test]
async fn secret_in_a_response_header_is_removed() {
    let world = World::new(with_secret("api.example"));
    let server = servers::tls(&world, "api.example", Offers::Http1).await;
    world.leads("api.example", server.address);
    let address = world.intercepted("api.example").await;
    let heard = say(
        &world,
        address,
        "GET /tells HTTP/1.1\r\nHost: api.example\r\n\r\n",
    )
    .await;
    assert!(
        heard.starts_with("HTTP/1.1 200 OK\r\n") && heard.ends_with("told"),
        "{heard}"
    );
    assert!(
        !heard.contains(SECRET) && !heard.contains("x-you-said"),
        "{heard}"
    );
    let heard = say(
        &world,
        address,
        "TRACE / HTTP/1.1\r\nHost: api.example\r\n\r\n",
    )
    .await;
    assert!(heard.starts_with("HTTP/1.1 405 "), "{heard}");
}

#[tokio::test]
async fn request_for_another_host_is_misdirected() {
    let world = World::new(with_secret("*.example"));
    let server = servers::tls(&world, "api.example", Offers::Http1).await;
    world.leads("api.example", server.address);
    world.leads("b.example", server.address);
    let address = world.intercepted("api.example").await;
    for host in ["b.example", "api.example:8443", "127.0.0.1"] {
        let heard = say(
            &world,
            address,
            &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        )
        .await;
        assert!(heard.starts_with("HTTP/1.1 421 "), "{host}: {heard}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
    assert_eq!(
        world.decided(),
        [
            "deny tls b.example:443",
            "deny tls api.example:8443",
            "deny tls 127.0.0.1:443"
        ]
    );
}

#[tokio::test]
async fn missing_secret_is_named_and_nothing_is_sent() {
    let world = World::without_secrets(with_secret("api.example"));
    let server = servers::tls(&world, "api.example", Offers::Http1).await;
    world.leads("api.example", server.address);
    let address = world.intercepted("api.example").await;
    let heard = say(
        &world,
        address,
        "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n",
    )
    .await;
    assert!(heard.starts_with("HTTP/1.1 502 "), "{heard}");
    assert!(
        heard.ends_with("sandbar: secret key does not exist on this host\n"),
        "{heard}"
    );
    assert_eq!(world.decided(), ["deny tls api.example:443"]);
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn server_with_a_wrong_certificate_gets_no_secret() {
    let world = World::new(with_secret("api.example"));
    let server = servers::tls(&world, "b.example", Offers::Http1).await;
    world.leads("api.example", server.address);
    let address = world.intercepted("api.example").await;
    let heard = say(
        &world,
        address,
        "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n",
    )
    .await;
    assert!(
        heard.starts_with("HTTP/1.1 502 ") && heard.contains("certificate"),
        "{heard}"
    );
    let decisions = world.context.decisions.lock().unwrap();
    assert!(decisions.iter().all(|decision| decision.secrets.is_empty()));
    assert!(
        decisions
            .iter()
            .all(|decision| decision.verdict == NetworkVerdict::Allow),
        "the rules had no objection"
    );
}

async fn get(
    sender: &mut http2::SendRequest<Empty<Bytes>>,
    uri: &str,
) -> (Response<Incoming>, http::HeaderMap) {
    let request = Request::get(uri)
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(Empty::new())
        .unwrap();
    let mut response = sender.send_request(request).await.unwrap();
    let mut trailers = http::HeaderMap::new();
    while let Some(frame) = response.body_mut().frame().await {
        if let Ok(more) = frame.unwrap().into_trailers() {
            trailers.extend(more);
        }
    }
    (response, trailers)
}

#[tokio::test]
async fn http2_client_reaches_http1_and_http2_servers() {
    for offers in [Offers::Http2, Offers::Http1] {
        let is_http2 = matches!(offers, Offers::Http2);
        let world = World::new(with_secret("api.example"));
        let server = servers::tls(&world, "api.example", offers).await;
        world.leads("api.example", server.address);
        let stream = connect(
            &world,
            world.intercepted("api.example").await,
            "api.example",
            b"h2",
        )
        .await;
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        world.run(async move { drop(connection.await) });
        let request = Request::get("https://api.example/x")
            .header("cookie", "a=1")
            .header("cookie", "b=2");
        let response = sender
            .send_request(request.body(Empty::<Bytes>::new()).unwrap())
            .await
            .unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let said = String::from_utf8_lossy(&body);
        assert!(
            said.contains("authorization: Bearer THE-SECRET\n"),
            "{said}"
        );
        if is_http2 {
            assert!(
                said.starts_with("GET https://api.example/x HTTP/2.0\n"),
                "{said}"
            );
        } else {
            assert!(
                said.starts_with("GET /x HTTP/1.1\n") && said.contains("cookie: a=1; b=2\n"),
                "{said}"
            );
        }
        let others = (0..20).map(|_| {
            let mut sender = sender.clone();
            async move { get(&mut sender, "https://api.example/tells").await }
        });
        for (response, _) in futures::future::join_all(others).await {
            assert_eq!(response.status(), 200);
            assert!(!format!("{:?}", response.headers()).contains(SECRET));
        }
        let (response, _) = get(&mut sender, "https://b.example/").await;
        assert_eq!(response.status(), 421);
        if is_http2 {
            assert_eq!(
                server.connections.load(Ordering::SeqCst),
                1,
                "one connection carries all"
            );
            let (_, trailers) = get(&mut sender, "https://api.example/trailers").await;
            assert_eq!(trailers["x-sum"], "42");
        }
    }
}

#[tokio::test]
async fn web_socket_over_tls_gets_the_secret() {
    let world = World::new(with_secret("api.example"));
    let server = servers::tls(&world, "api.example", Offers::Http1).await;
    world.leads("api.example", server.address);
    let address = world.intercepted("api.example").await;
    let mut stream = connect(&world, address, "api.example", b"http/1.1").await;
    let request = "GET /socket HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut heard).await.unwrap(), 0);
    }
    assert!(heard.starts_with(b"HTTP/1.1 101 "));
    stream.write_all(b"ping").await.unwrap();
    let mut echoed = [0; 4];
    stream.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"ping");
    assert_eq!(world.decided(), ["allow tls api.example:443 key"]);
}
