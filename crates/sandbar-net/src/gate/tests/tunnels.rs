//! Tunnels through the explicit proxy, and TLS that is looked into by either way.

use super::*;

#[tokio::test]
async fn a_tunnel_carries_tls_for_the_host_it_was_asked_for() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    let target = format!("localhost:{}", server.port());
    let mut client = tunnel(&session, &target).await;
    assert_eq!(hear(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
    let words = hello("localhost");
    client.write_all(&words).await.unwrap();
    assert_eq!(hear(&mut client, words.len()).await, words);
    let mut client = tunnel(&session, &target).await;
    hear(&mut client, ESTABLISHED.len()).await;
    client.write_all(&hello("other.example")).await.unwrap();
    assert_eq!(hear(&mut client, 7).await, ACCESS_DENIED);
    let opened = one(Allow, Proxy, Some("localhost"));
    assert_eq!(session.decisions(), [opened.clone(), opened, one(Deny, Tls, Some("localhost"))].concat());
}

#[tokio::test]
async fn a_tunnel_carries_what_has_no_name_in_it() {
    let (server, session) = (Server::start(b"SSH-2.0-server\r\n").await, Session::new("allow=localhost"));
    let mut client = tunnel(&session, &format!("localhost:{}", server.port())).await;
    hear(&mut client, ESTABLISHED.len()).await;
    assert_eq!(hear(&mut client, 16).await, b"SSH-2.0-server\r\n");
    client.write_all(b"SSH-2.0-client\r\n").await.unwrap();
    assert_eq!(hear(&mut client, 16).await, b"SSH-2.0-client\r\n");
}

#[tokio::test]
async fn a_tunnel_that_may_not_or_cannot_be_says_so() {
    let session = Session::new("allow=localhost");
    let server = Server::start(b"").await;
    let port = server.port();
    drop(server);
    let heard = hear_all(&mut tunnel(&session, "other.example:443").await).await;
    assert!(heard.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{heard}");
    assert!(heard.ends_with("\r\n\r\nsandbar: other.example may not be reached: not in the allow list\n"), "{heard}");
    let heard = hear_all(&mut tunnel(&session, "169.254.169.254:80").await).await;
    assert!(heard.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{heard}");
    let heard = hear_all(&mut tunnel(&session, &format!("localhost:{port}")).await).await;
    assert!(heard.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{heard}");
    let heard = hear_all(&mut tunnel(&session, "nowhere").await).await;
    assert!(heard.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{heard}");
    let expected = [
        one(Deny, Proxy, Some("other.example")),
        one(Deny, Proxy, None),
        one(Allow, Proxy, Some("localhost")),
        one(Deny, Proxy, None),
    ];
    assert_eq!(session.decisions(), expected.concat());
}

#[tokio::test]
async fn tls_that_is_looked_into_ends_at_the_gate_by_either_way() {
    let session = Session::new("allow=localhost");
    session.gate.set_policy(NetworkPolicy { inspect_tls: true, ..policy("allow=localhost") });
    let client = session.connect(elsewhere(443)).await;
    open_tls(&session, client).await.unwrap();
    let mut client = tunnel(&session, "localhost:443").await;
    hear(&mut client, ESTABLISHED.len()).await;
    open_tls(&session, client).await.unwrap();
}

#[tokio::test]
async fn what_must_be_looked_into_and_cannot_be_is_denied() {
    let record = Arc::new(Record::default());
    let policy = NetworkPolicy { inspect_tls: true, ..policy("allow=localhost") };
    let hooks = SessionHooks { authority: None, ..hooks(policy, &record) };
    let gateway = Gateway::open(&GatewaySettings::default()).unwrap();
    let session = Session { gate: Arc::new(SessionGate::new(gateway.shared(), hooks)), record };
    let mut client = session.connect(elsewhere(443)).await;
    client.write_all(&hello("localhost")).await.unwrap();
    assert_eq!(hear(&mut client, 7).await, ACCESS_DENIED);
    let heard = hear_all(&mut tunnel(&session, "localhost:443").await).await;
    assert!(heard.starts_with("HTTP/1.1 403 Forbidden"), "{heard}");
    assert_eq!(session.decisions(), [one(Deny, Tls, Some("localhost")), one(Deny, Proxy, Some("localhost"))].concat());
}
