//! The listeners of a session as a whole.

use super::*;

#[tokio::test]
async fn gateway_serves_only_the_proxy_and_dns() {
    let session = Session::new("full");
    expect_reset(&mut session.connect((GATEWAY_V4, 8080)).await).await;
    assert_eq!(session.decisions(), one(Deny, Tcp, None));
    // The gateway answers DNS sent to any server; the name does not exist for this session.
    let session = Session::new("allow=localhost");
    let mut client = session.connect(elsewhere(53)).await;
    let question = [
        &[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5][..],
        b"other",
        b"\x07example",
        &[0, 0, 1, 0, 1],
    ]
    .concat();
    client
        .write_u16(u16::try_from(question.len()).unwrap())
        .await
        .unwrap();
    client.write_all(&question).await.unwrap();
    let length = client.read_u16().await.unwrap();
    let answer = read_exactly(&mut client, length.into()).await;
    assert_eq!((&answer[..2], answer[3] & 15), (&[0, 1][..], 3));
    assert_eq!(
        session.decisions(),
        one(Deny, NetworkProtocol::Dns, Some("other.example"))
    );
}

#[tokio::test]
async fn policy_change_applies_to_new_connections() {
    let (server, session) = (Server::start(b"hi").await, Session::new("allow=127.0.0.1"));
    let mut before = session.connect(server.address).await;
    read_exactly(&mut before, 2).await;
    session.egress.set_policy(policy("allow=other.example"));
    let mut after = session.connect(server.address).await;
    after.shutdown().await.unwrap();
    expect_reset(&mut after).await;
    before.write_all(b"still here").await.unwrap();
    assert_eq!(read_exactly(&mut before, 10).await, b"still here");
}

/// Returns a listener whose connections are addressed to itself, so that none is allowed.
fn listener(limits: NetworkLimits) -> (EgressListener, SocketAddr, Arc<Record>) {
    listener_of(&Gateway::open(&GatewaySettings::default()).unwrap(), limits)
}

fn listener_of(
    gateway: &Gateway,
    limits: NetworkLimits,
) -> (EgressListener, SocketAddr, Arc<Record>) {
    let record = Arc::new(Record::default());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sockets = NetnsListeners {
        tcp: vec![listener],
        dns: Vec::new(),
        udp: Vec::new(),
    };
    let policy = NetworkPolicy {
        limits,
        ..policy("allow=other.example")
    };
    (
        gateway.attach(sockets, hooks(policy, &record)).unwrap(),
        address,
        record,
    )
}

#[tokio::test]
async fn connection_over_the_limit_is_reset_and_recorded() {
    let (listener, address, record) = listener(NetworkLimits {
        connections: Some(1),
        ..NetworkLimits::default()
    });
    let _first = TcpStream::connect(address).await.unwrap();
    // The reset may arrive before or after `connect` returns.
    let second = async { TcpStream::connect(address).await?.read(&mut [0]).await };
    assert_eq!(
        second.await.unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
    assert_eq!(
        record.0.lock().unwrap()[0].reason,
        "more than 1 connections at once"
    );
    listener.close();
    listener.closed().await;
}

#[tokio::test]
async fn connection_over_the_limit_of_the_host_is_reset() {
    let gateway = Gateway::open(&GatewaySettings::default()).unwrap();
    let shared = gateway.shared();
    let taken: Vec<_> = std::iter::from_fn(|| shared.connection_permit()).collect();
    let (_listener, address, record) = listener_of(&gateway, NetworkLimits::default());
    let refused = async { TcpStream::connect(address).await?.read(&mut [0]).await };
    assert_eq!(
        refused.await.unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
    assert_eq!(
        record.0.lock().unwrap()[0].reason,
        "connection limit of the host reached"
    );
    drop(taken);
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"SSH-2.0-test\r\n").await.unwrap();
    expect_reset(&mut client).await;
    assert_eq!(record.0.lock().unwrap()[1].reason, "not in the allow list");
}

#[tokio::test]
async fn closed_or_dropped_listener_leaves_nothing_open() {
    let (closed, address, _) = listener(NetworkLimits::default());
    let mut client = TcpStream::connect(address).await.unwrap();
    closed.close();
    closed.closed().await;
    assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
    TcpStream::connect(address).await.unwrap_err();

    let (dropped, address, record) = listener(NetworkLimits::default());
    let mut client = TcpStream::connect(address).await.unwrap();
    drop(dropped);
    assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
    // Only this test still holds state of the session.
    while Arc::strong_count(&record) > 1 {
        tokio::task::yield_now().await;
    }
}
