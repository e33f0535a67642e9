//! Connections whose programs know of no gate.

use super::*;

#[tokio::test]
async fn an_open_address_is_reached_without_a_word() {
    let (server, session) = (Server::start(b"welcome").await, Session::new("allow=127.0.0.1"));
    let mut client = session.connect(server.address).await;
    assert_eq!(hear(&mut client, 7).await, b"welcome");
    client.write_all(b"echo").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(hear_all(&mut client).await, "echo");
    assert_eq!(session.decisions(), one(Allow, Tcp, None));
}

#[tokio::test]
async fn an_address_that_is_not_open_is_cut_off_when_it_says_no_name() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=other.example"));
    let mut client = session.connect(server.address).await;
    client.write_all(b"SSH-2.0-test\r\n").await.unwrap();
    is_cut(&mut client).await;
    assert_eq!(session.decisions(), one(Deny, Tcp, None));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_not_hidden() {
    let session = Session::new("allow=127.0.0.1");
    let server = Server::start(b"").await;
    let address = SocketAddr::new("127.0.0.1".parse().unwrap(), server.port());
    drop(server);
    let mut client = session.connect(address).await;
    is_cut(&mut client).await;
    assert_eq!(session.reasons(), ["allowed by `127.0.0.1`; not reached: connection refused"]);
}

#[tokio::test]
async fn tls_goes_where_its_name_leads_and_not_where_the_session_says() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    let mut client = session.connect(elsewhere(server.port())).await;
    let hello = hello("localhost");
    // However it is cut, it is one hello.
    let (first, rest) = hello.split_at(7);
    client.write_all(first).await.unwrap();
    client.write_all(rest).await.unwrap();
    assert_eq!(hear(&mut client, hello.len()).await, hello);
    assert_eq!(session.decisions(), one(Allow, Tls, Some("localhost")));
    assert_eq!(session.record.0.lock().unwrap()[0].address, Some(server.address));
}

#[tokio::test]
async fn tls_for_another_name_is_told_that_access_is_denied() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    let mut client = session.connect(server.address).await;
    client.write_all(&hello("other.example")).await.unwrap();
    assert_eq!(hear(&mut client, 7).await, ACCESS_DENIED);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    // The text of an address is no name.
    let mut client = session.connect(server.address).await;
    client.write_all(&hello("127.0.0.1")).await.unwrap();
    assert_eq!(hear(&mut client, 7).await, ACCESS_DENIED);
    assert_eq!(session.decisions(), [one(Deny, Tls, Some("other.example")), one(Deny, Tls, None)].concat());
}

#[tokio::test]
async fn a_name_that_leads_to_the_host_itself_is_not_followed() {
    let record = Arc::new(Record::default());
    let gateway = Gateway::open(&GatewaySettings::default()).unwrap();
    let policy = "allow=localhost".parse().unwrap();
    let gate = Arc::new(SessionGate::new(gateway.shared(), hooks(policy, &record)));
    let session = Session { gate, record };
    let server = Server::start(b"").await;
    let mut client = session.connect(elsewhere(server.port())).await;
    client.write_all(&hello("localhost")).await.unwrap();
    assert_eq!(hear(&mut client, 7).await, ACCESS_DENIED);
    assert_eq!(session.decisions(), one(Deny, Tls, Some("localhost")));
}

#[tokio::test]
async fn a_server_may_speak_first_where_dns_has_led_the_session() {
    let (server, session) = (Server::start(b"220 ready\r\n").await, Session::new("allow=localhost"));
    session.gate.names().learn(&"localhost".parse().unwrap(), [server.address.ip()]);
    let mut client = session.connect(server.address).await;
    assert_eq!(hear(&mut client, 11).await, b"220 ready\r\n");
    // Word by word, and each could be the beginning of a request.
    for word in [&b"EHLO"[..], b" me", b"\r\n"] {
        client.write_all(word).await.unwrap();
        assert_eq!(hear(&mut client, word.len()).await, word);
    }
    assert_eq!(session.decisions(), one(Allow, Tcp, Some("localhost")));
}

#[tokio::test]
async fn tls_after_the_server_has_spoken_is_cut_off() {
    let (server, session) = (Server::start(b"hello").await, Session::new("allow=localhost"));
    session.gate.names().learn(&"localhost".parse().unwrap(), [server.address.ip()]);
    let mut client = session.connect(server.address).await;
    hear(&mut client, 5).await;
    let hello = hello("other.example");
    let (most, last) = hello.split_at(hello.len() - 1);
    client.write_all(most).await.unwrap();
    client.write_all(last).await.unwrap();
    // The server may have said back all but the last byte; it never says back a whole hello.
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).await.unwrap_err();
    assert!(heard.len() < hello.len());
    let denied = one(Deny, Tcp, Some("localhost"));
    assert_eq!(session.decisions(), [one(Allow, Tcp, Some("localhost")), denied].concat());
}

#[tokio::test]
async fn a_client_that_speaks_late_is_judged_all_the_same() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    session.gate.names().learn(&"localhost".parse().unwrap(), [server.address.ip()]);
    let mut client = session.connect(server.address).await;
    // It was taken for one that waits when this is recorded.
    while session.decisions().is_empty() {
        tokio::task::yield_now().await;
    }
    client.write_all(&hello("other.example")).await.unwrap();
    assert_eq!(hear(&mut client, 7).await, ACCESS_DENIED);
    let denied = one(Deny, Tls, Some("other.example"));
    assert_eq!(session.decisions(), [one(Allow, Tcp, Some("localhost")), denied].concat());
}

#[tokio::test]
async fn plain_http_is_judged_by_the_host_of_each_request() {
    let (server, session) = (Server::start(b"").await, Session::new("allow=localhost"));
    let mut client = session.connect(server.address).await;
    let host = format!("other.example:{}", server.port());
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let heard = hear_all(&mut client).await;
    assert!(heard.starts_with("HTTP/1.1 403 "), "{heard}");
    assert_eq!(session.decisions(), one(Deny, NetworkProtocol::Http, Some("other.example")));
}
