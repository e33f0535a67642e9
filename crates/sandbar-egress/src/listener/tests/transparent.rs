//! Connections that clients addressed to servers.

use super::*;

#[tokio::test]
async fn open_address_is_reached_without_a_host_name() {
    let (server, session) = (
        Server::start(b"welcome").await,
        Session::new("allow=127.0.0.1"),
    );
    let mut client = session.connect(server.address).await;
    assert_eq!(read_exactly(&mut client, 7).await, b"welcome");
    client.write_all(b"echo").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, "echo");
    assert_eq!(session.decisions(), one(Allow, Tcp, None));
}

#[tokio::test]
async fn denied_address_without_a_host_name_is_reset() {
    let (server, session) = (
        Server::start(b"").await,
        Session::new("allow=other.example"),
    );
    let mut client = session.connect(server.address).await;
    client.write_all(b"SSH-2.0-test\r\n").await.unwrap();
    expect_reset(&mut client).await;
    assert_eq!(session.decisions(), one(Deny, Tcp, None));
}

#[tokio::test]
async fn unreachable_server_resets_the_client() {
    let session = Session::new("allow=127.0.0.1");
    let server = Server::start(b"").await;
    let address = SocketAddr::new("127.0.0.1".parse().unwrap(), server.port());
    drop(server);
    let mut client = session.connect(address).await;
    expect_reset(&mut client).await;
    assert_eq!(
        session.reasons(),
        ["allowed by `127.0.0.1`; not reached: connection refused"]
    );
}

#[tokio::test]
async fn tls_goes_to_the_resolved_address_of_its_sni() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    let mut client = session.connect(elsewhere(server.port())).await;
    let hello = hello("localhost");
    // The ClientHello may arrive in several parts.
    let (first, rest) = hello.split_at(7);
    client.write_all(first).await.unwrap();
    client.write_all(rest).await.unwrap();
    assert_eq!(read_exactly(&mut client, hello.len()).await, hello);
    assert_eq!(session.decisions(), one(Allow, Tls, Some("localhost")));
    assert_eq!(
        session.record.0.lock().unwrap()[0].address,
        Some(server.address)
    );
}

#[tokio::test]
async fn tls_for_a_denied_name_gets_an_alert() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    let mut client = session.connect(server.address).await;
    client.write_all(&hello("other.example")).await.unwrap();
    assert_eq!(read_exactly(&mut client, 7).await, ACCESS_DENIED);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    // An address in text form is not a valid SNI.
    let mut client = session.connect(server.address).await;
    client.write_all(&hello("127.0.0.1")).await.unwrap();
    assert_eq!(read_exactly(&mut client, 7).await, ACCESS_DENIED);
    assert_eq!(
        session.decisions(),
        [one(Deny, Tls, Some("other.example")), one(Deny, Tls, None)].concat()
    );
}

#[tokio::test]
async fn name_that_resolves_to_the_host_itself_is_denied() {
    let record = Arc::new(Record::default());
    let gateway = Gateway::open(&GatewaySettings::default()).unwrap();
    let policy = "allow=localhost".parse().unwrap();
    let egress = Arc::new(SessionEgress::new(gateway.shared(), hooks(policy, &record)));
    let session = Session { egress, record };
    let server = Server::start(b"").await;
    let mut client = session.connect(elsewhere(server.port())).await;
    client.write_all(&hello("localhost")).await.unwrap();
    assert_eq!(read_exactly(&mut client, 7).await, ACCESS_DENIED);
    assert_eq!(session.decisions(), one(Deny, Tls, Some("localhost")));
}

#[tokio::test]
async fn server_may_speak_first_at_an_address_from_dns() {
    let (server, session) = (
        Server::start(b"220 ready\r\n").await,
        Session::new("allow=localhost"),
    );
    session
        .egress
        .names()
        .learn(&"localhost".parse().unwrap(), [server.address.ip()]);
    let mut client = session.connect(server.address).await;
    assert_eq!(read_exactly(&mut client, 11).await, b"220 ready\r\n");
    // Each part could be the start of a request.
    for word in [&b"EHLO"[..], b" me", b"\r\n"] {
        client.write_all(word).await.unwrap();
        assert_eq!(read_exactly(&mut client, word.len()).await, word);
    }
    assert_eq!(session.decisions(), one(Allow, Tcp, Some("localhost")));
}

#[tokio::test]
async fn tls_after_the_server_spoke_is_reset() {
    let (server, session) = (
        Server::start(b"hello").await,
        Session::new("allow=localhost"),
    );
    session
        .egress
        .names()
        .learn(&"localhost".parse().unwrap(), [server.address.ip()]);
    let mut client = session.connect(server.address).await;
    read_exactly(&mut client, 5).await;
    let hello = hello("other.example");
    let (most, last) = hello.split_at(hello.len() - 1);
    client.write_all(most).await.unwrap();
    client.write_all(last).await.unwrap();
    // The server may have echoed all but the last byte, never a complete ClientHello.
    let mut received = Vec::new();
    client.read_to_end(&mut received).await.unwrap_err();
    assert!(received.len() < hello.len());
    let denied = one(Deny, Tcp, Some("localhost"));
    assert_eq!(
        session.decisions(),
        [one(Allow, Tcp, Some("localhost")), denied].concat()
    );
}

#[tokio::test]
async fn cut_client_hello_or_request_is_denied() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    session
        .egress
        .names()
        .learn(&"localhost".parse().unwrap(), [server.address.ip()]);
    let hello = hello("localhost");
    for cut in [&hello[..hello.len() / 2], &hello[..1], b"PURGE / HTTP/1."] {
        // At once, and after the connection to the server was opened.
        for late in [false, true] {
            let before = session.decisions().len();
            let mut client = session.connect(server.address).await;
            while late && session.decisions().len() == before {
                tokio::task::yield_now().await;
            }
            client.write_all(cut).await.unwrap();
            client.shutdown().await.unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.unwrap_err();
            assert!(received.is_empty(), "{}", received.escape_ascii());
            let denied = (Deny, Tcp, Some("localhost".to_owned()));
            while session.decisions()[before..].last() != Some(&denied) {
                tokio::task::yield_now().await;
            }
        }
    }
    // A protocol without a host name may end after its first word.
    let mut client = session.connect(server.address).await;
    client.write_all(b"echo").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, "echo");
}

#[tokio::test]
async fn client_that_speaks_late_is_judged() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    session
        .egress
        .names()
        .learn(&"localhost".parse().unwrap(), [server.address.ip()]);
    let mut client = session.connect(server.address).await;
    // Once this is recorded, the client is assumed to wait for the server.
    while session.decisions().is_empty() {
        tokio::task::yield_now().await;
    }
    client.write_all(&hello("other.example")).await.unwrap();
    assert_eq!(read_exactly(&mut client, 7).await, ACCESS_DENIED);
    let denied = one(Deny, Tls, Some("other.example"));
    assert_eq!(
        session.decisions(),
        [one(Allow, Tcp, Some("localhost")), denied].concat()
    );
}

#[tokio::test]
async fn plain_http_is_judged_by_the_host_header() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    let mut client = session.connect(server.address).await;
    let host = format!("other.example:{}", server.port());
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let received = read_to_end(&mut client).await;
    assert!(received.starts_with("HTTP/1.1 403 "), "{received}");
    assert_eq!(
        session.decisions(),
        one(Deny, NetworkProtocol::Http, Some("other.example"))
    );
}

#[tokio::test]
async fn denied_host_is_not_reached_by_its_bare_address() {
    let policy = r#"{"allow_list": ["127.0.0.1"], "deny_list": ["localhost"]}"#;
    let (server, session) = (Server::start(b"welcome").await, Session::new(policy));
    let mut client = session.connect(server.address).await;
    expect_reset(&mut client).await;
    assert_eq!(
        session.reasons(),
        ["address of the denied host `localhost`"]
    );
    let mut client = session.connect(server.address).await;
    client
        .write_all(
            format!(
                "GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                server.address
            )
            .as_bytes(),
        )
        .await
        .unwrap();
    assert!(read_to_end(&mut client).await.starts_with("HTTP/1.1 403 "));
}
