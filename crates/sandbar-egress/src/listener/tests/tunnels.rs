//! Tunnels through the explicit proxy, and intercepted TLS with and without a tunnel.

use super::*;

#[tokio::test]
async fn tunnel_relays_tls_for_its_target_only() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    let target = format!("localhost:{}", server.port());
    let mut client = tunnel(&session, &target).await;
    assert_eq!(
        read_exactly(&mut client, ESTABLISHED.len()).await,
        ESTABLISHED
    );
    let words = hello("localhost");
    client.write_all(&words).await.unwrap();
    assert_eq!(read_exactly(&mut client, words.len()).await, words);
    let mut client = tunnel(&session, &target).await;
    read_exactly(&mut client, ESTABLISHED.len()).await;
    client.write_all(&hello("other.example")).await.unwrap();
    assert_eq!(read_exactly(&mut client, 7).await, ACCESS_DENIED);
    let opened = one(Allow, Proxy, Some("localhost"));
    assert_eq!(
        session.decisions(),
        [opened.clone(), opened, one(Deny, Tls, Some("localhost"))].concat()
    );
}

#[tokio::test]
async fn tunnel_relays_protocols_without_host_names() {
    let (server, session) = (
        Server::start(b"SSH-2.0-server\r\n").await,
        Session::new("allow=localhost"),
    );
    let mut client = tunnel(&session, &format!("localhost:{}", server.port())).await;
    read_exactly(&mut client, ESTABLISHED.len()).await;
    assert_eq!(read_exactly(&mut client, 16).await, b"SSH-2.0-server\r\n");
    client.write_all(b"SSH-2.0-client\r\n").await.unwrap();
    assert_eq!(read_exactly(&mut client, 16).await, b"SSH-2.0-client\r\n");
}

#[tokio::test]
async fn refused_tunnel_gets_an_error_response() {
    let session = Session::new("allow=localhost");
    let server = Server::start(b"").await;
    let port = server.port();
    drop(server);
    let received = read_to_end(&mut tunnel(&session, "other.example:443").await).await;
    assert!(
        received.starts_with("HTTP/1.1 403 Forbidden\r\n"),
        "{received}"
    );
    assert!(
        received.ends_with(
            "\r\n\r\nsandbar: other.example may not be reached: not in the allow list\n"
        ),
        "{received}"
    );
    let received = read_to_end(&mut tunnel(&session, "169.254.169.254:80").await).await;
    assert!(
        received.starts_with("HTTP/1.1 403 Forbidden\r\n"),
        "{received}"
    );
    let received = read_to_end(&mut tunnel(&session, &format!("localhost:{port}")).await).await;
    assert!(
        received.starts_with("HTTP/1.1 502 Bad Gateway\r\n"),
        "{received}"
    );
    let received = read_to_end(&mut tunnel(&session, "nowhere").await).await;
    assert!(
        received.starts_with("HTTP/1.1 400 Bad Request\r\n"),
        "{received}"
    );
    let expected = [
        one(Deny, Proxy, Some("other.example")),
        one(Deny, Proxy, None),
        one(Allow, Proxy, Some("localhost")),
        one(Deny, Proxy, None),
    ];
    assert_eq!(session.decisions(), expected.concat());
}

#[tokio::test]
async fn inspected_tls_is_intercepted_with_and_without_tunnel() {
    let session = Session::new("allow=localhost");
    session.egress.set_policy(NetworkPolicy {
        inspect_tls: true,
        ..policy("allow=localhost")
    });
    let client = session.connect(elsewhere(443)).await;
    open_tls(&session, client).await.unwrap();
    let mut client = tunnel(&session, "localhost:443").await;
    read_exactly(&mut client, ESTABLISHED.len()).await;
    open_tls(&session, client).await.unwrap();
}

#[tokio::test]
async fn inspected_tls_without_a_session_ca_is_denied() {
    let record = Arc::new(Record::default());
    let policy = NetworkPolicy {
        inspect_tls: true,
        ..policy("allow=localhost")
    };
    let hooks = SessionHooks {
        authority: None,
        ..hooks(policy, &record)
    };
    let gateway = Gateway::open(&GatewaySettings::default()).unwrap();
    let session = Session {
        egress: Arc::new(SessionEgress::new(gateway.shared(), hooks)),
        record,
    };
    let mut client = session.connect(elsewhere(443)).await;
    client.write_all(&hello("localhost")).await.unwrap();
    assert_eq!(read_exactly(&mut client, 7).await, ACCESS_DENIED);
    let received = read_to_end(&mut tunnel(&session, "localhost:443").await).await;
    assert!(received.starts_with("HTTP/1.1 403 Forbidden"), "{received}");
    assert_eq!(
        session.decisions(),
        [
            one(Deny, Tls, Some("localhost")),
            one(Deny, Proxy, Some("localhost"))
        ]
        .concat()
    );
}
