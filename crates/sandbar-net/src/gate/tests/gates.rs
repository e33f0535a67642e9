//! The gate as a whole.

use super::*;

#[tokio::test]
async fn the_gateway_has_nothing_but_the_proxy_and_dns() {
    let session = Session::new("full");
    is_cut(&mut session.connect((GATEWAY_V4, 8080)).await).await;
    assert_eq!(session.decisions(), one(Deny, Tcp, None));
    // Whoever it was sent to, the gateway answers: for this session there is no such name.
    let session = Session::new("allow=localhost");
    let mut client = session.connect(elsewhere(53)).await;
    let question = [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5][..], b"other", b"\x07example", &[0, 0, 1, 0, 1]].concat();
    client.write_u16(u16::try_from(question.len()).unwrap()).await.unwrap();
    client.write_all(&question).await.unwrap();
    let length = client.read_u16().await.unwrap();
    let answer = hear(&mut client, length.into()).await;
    assert_eq!((&answer[..2], answer[3] & 15), (&[0, 1][..], 3));
    assert_eq!(session.decisions(), one(Deny, NetworkProtocol::Dns, Some("other.example")));
}

#[tokio::test]
async fn policies_count_for_what_begins_after_them() {
    let (server, session) = (Server::start(b"hi").await, Session::new("allow=127.0.0.1"));
    let mut before = session.connect(server.address).await;
    hear(&mut before, 2).await;
    session.gate.set_policy(policy("allow=other.example"));
    let mut after = session.connect(server.address).await;
    after.shutdown().await.unwrap();
    is_cut(&mut after).await;
    before.write_all(b"still here").await.unwrap();
    assert_eq!(hear(&mut before, 10).await, b"still here");
}

/// A gate whose connections are meant for itself, so that none gets anywhere.
fn gate(limits: NetworkLimits) -> (Gate, SocketAddr, Arc<Record>) {
    gate_of(&Gateway::open(&GatewaySettings::default()).unwrap(), limits)
}

fn gate_of(gateway: &Gateway, limits: NetworkLimits) -> (Gate, SocketAddr, Arc<Record>) {
    let record = Arc::new(Record::default());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sockets = GateSockets { tcp: vec![listener], dns: Vec::new(), udp: Vec::new() };
    let policy = NetworkPolicy { limits, ..policy("allow=other.example") };
    (gateway.attach(sockets, hooks(policy, &record)).unwrap(), address, record)
}

#[tokio::test]
async fn a_connection_over_the_limit_is_cut_and_recorded() {
    let (gate, address, record) = gate(NetworkLimits { connections: Some(1), ..NetworkLimits::default() });
    let _first = TcpStream::connect(address).await.unwrap();
    // The reset may come before or after the connection is seen to be made.
    let second = async { TcpStream::connect(address).await?.read(&mut [0]).await };
    assert_eq!(second.await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(record.0.lock().unwrap()[0].reason, "more than 1 connections at once");
    gate.close();
    gate.closed().await;
}

#[tokio::test]
async fn no_session_gets_a_place_when_those_of_the_host_are_taken() {
    let gateway = Gateway::open(&GatewaySettings::default()).unwrap();
    let shared = gateway.shared();
    let taken: Vec<_> = std::iter::from_fn(|| shared.place()).collect();
    let (_gate, address, record) = gate_of(&gateway, NetworkLimits::default());
    let refused = async { TcpStream::connect(address).await?.read(&mut [0]).await };
    assert_eq!(refused.await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(record.0.lock().unwrap()[0].reason, "more connections at once than the host has places for");
    drop(taken);
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"SSH-2.0-test\r\n").await.unwrap();
    is_cut(&mut client).await;
    assert_eq!(record.0.lock().unwrap()[1].reason, "not in the allow list");
}

#[tokio::test]
async fn a_gate_that_is_closed_or_dropped_leaves_nothing_open() {
    let (closed, address, _) = gate(NetworkLimits::default());
    let mut client = TcpStream::connect(address).await.unwrap();
    closed.close();
    closed.closed().await;
    assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
    TcpStream::connect(address).await.unwrap_err();

    let (dropped, address, record) = gate(NetworkLimits::default());
    let mut client = TcpStream::connect(address).await.unwrap();
    drop(dropped);
    assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
    // Nothing of the session is held by anybody but this test.
    while Arc::strong_count(&record) > 1 {
        tokio::task::yield_now().await;
    }
}
