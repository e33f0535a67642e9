//! Flows with real sockets on the loopback, which is why the policies here name it. What a session's namespace adds is tested
//! with real ones in the host's tests.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use rustls::{ClientConfig, ClientConnection, RootCertStore, crypto::aws_lc_rs};
use sandbar_core::{
    NetworkDecision, NetworkLimits, NetworkPolicy, NetworkProtocol, NetworkVerdict, SecretName, SecretValue,
};
use sandbar_netns::{GATEWAY_V4, GateSockets, PROXY_PORT};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::tcp_flow;
use crate::{
    Authority, DecisionSink, Gate, Gateway, GatewaySettings, Secrets, SessionHooks, TrafficCounters, http::Outside,
    session_gate::SessionGate,
};

#[derive(Debug, Default)]
pub(super) struct Record(Mutex<Vec<NetworkDecision>>);

impl DecisionSink for Record {
    fn decided(&self, decision: NetworkDecision) {
        self.0.lock().unwrap().push(decision);
    }
}

impl Secrets for Record {
    fn secret(&self, _: &SecretName) -> Option<SecretValue> {
        None
    }
}

/// A session at a gateway.
pub(super) struct Session {
    pub(super) gate: Arc<SessionGate>,
    record: Arc<Record>,
}

/// A policy in its short form, whose names may lead to the loopback.
fn policy(text: &str) -> NetworkPolicy {
    let mut policy: NetworkPolicy = text.parse().unwrap();
    policy.private_ranges = vec!["127.0.0.0/8".parse().unwrap()];
    policy
}

fn hooks(policy: NetworkPolicy, record: &Arc<Record>) -> SessionHooks {
    SessionHooks {
        policy,
        sink: Arc::clone(record) as Arc<dyn DecisionSink>,
        secrets: Arc::clone(record) as Arc<dyn Secrets>,
        authority: Some(Arc::new(Authority::new("test").unwrap())),
        traffic: Arc::new(TrafficCounters::default()),
    }
}

impl Session {
    pub(super) fn new(text: &str) -> Self {
        let record = Arc::new(Record::default());
        let gateway = Gateway::open(&GatewaySettings::default()).unwrap();
        let gate = Arc::new(SessionGate::new(gateway.shared(), hooks(policy(text), &record)));
        Self { gate, record }
    }

    /// A connection of the session that was meant to go somewhere.
    async fn connect(&self, to: impl Into<SocketAddr>) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        tokio::spawn(tcp_flow::serve(Arc::clone(&self.gate), accepted.unwrap().0, to.into()));
        client.unwrap()
    }

    /// What was decided so far: verdict, protocol, host.
    pub(super) fn decisions(&self) -> Vec<(NetworkVerdict, NetworkProtocol, Option<String>)> {
        let decisions = self.record.0.lock().unwrap();
        decisions.iter().map(|one| (one.verdict, one.protocol, one.host.clone())).collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.record.0.lock().unwrap().iter().map(|one| one.reason.clone()).collect()
    }
}

/// A server that greets, and says back what it hears.
struct Server {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(greeting: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    client.write_all(greeting).await?;
                    let (mut read, mut write) = client.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        Self { address, task }
    }

    fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address of nobody, as a session may have been told by somebody else.
fn elsewhere(port: u16) -> SocketAddr {
    SocketAddr::new("203.0.113.7".parse().unwrap(), port)
}

/// What a real client says first.
fn hello(name: &str) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), name.to_owned().try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

async fn hear(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut heard = vec![0; length];
    stream.read_exact(&mut heard).await.unwrap();
    heard
}

async fn hear_all(stream: &mut TcpStream) -> String {
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    heard
}

async fn is_cut(stream: &mut TcpStream) {
    let end = stream.read(&mut [0; 64]).await;
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

fn one(
    verdict: NetworkVerdict,
    protocol: NetworkProtocol,
    host: Option<&str>,
) -> Vec<(NetworkVerdict, NetworkProtocol, Option<String>)> {
    vec![(verdict, protocol, host.map(str::to_owned))]
}

use NetworkProtocol::{Proxy, Tcp, Tls};
use NetworkVerdict::{Allow, Deny};

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

async fn tunnel(session: &Session, target: &str) -> TcpStream {
    let mut client = session.connect((GATEWAY_V4, PROXY_PORT)).await;
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    client
}

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

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
async fn the_gateway_has_nothing_but_the_proxy_and_dns() {
    let session = Session::new("full");
    is_cut(&mut session.connect((GATEWAY_V4, 8080)).await).await;
    assert_eq!(session.decisions(), one(Deny, Tcp, None));
    // Whoever it was sent to, the gateway answers: this name is refused.
    let session = Session::new("allow=localhost");
    let mut client = session.connect(elsewhere(53)).await;
    let question = [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5][..], b"other", b"\x07example", &[0, 0, 1, 0, 1]].concat();
    client.write_u16(u16::try_from(question.len()).unwrap()).await.unwrap();
    client.write_all(&question).await.unwrap();
    let length = client.read_u16().await.unwrap();
    let answer = hear(&mut client, length.into()).await;
    assert_eq!((&answer[..2], answer[3] & 15), (&[0, 1][..], 5));
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
async fn gate(limits: NetworkLimits) -> (Gate, SocketAddr, Arc<Record>) {
    let record = Arc::new(Record::default());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sockets = GateSockets { tcp: vec![listener], dns: Vec::new(), udp: Vec::new() };
    let policy = NetworkPolicy { limits, ..policy("allow=other.example") };
    let gateway = Gateway::open(&GatewaySettings::default()).unwrap();
    (gateway.attach(sockets, hooks(policy, &record)).unwrap(), address, record)
}

#[tokio::test]
async fn a_connection_over_the_limit_is_cut_and_recorded() {
    let (gate, address, record) = gate(NetworkLimits { connections: Some(1), ..NetworkLimits::default() }).await;
    let _first = TcpStream::connect(address).await.unwrap();
    // The reset may come before or after the connection is seen to be made.
    let second = async { TcpStream::connect(address).await?.read(&mut [0]).await };
    assert_eq!(second.await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(record.0.lock().unwrap()[0].reason, "more than 1 connections at once");
    gate.close();
    gate.closed().await;
}

#[tokio::test]
async fn a_gate_that_is_closed_or_dropped_leaves_nothing_open() {
    let (closed, address, _) = gate(NetworkLimits::default()).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    closed.close();
    closed.closed().await;
    assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
    TcpStream::connect(address).await.unwrap_err();

    let (dropped, address, record) = gate(NetworkLimits::default()).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    drop(dropped);
    assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
    // Nothing of the session is held by anybody but this test.
    while Arc::strong_count(&record) > 1 {
        tokio::task::yield_now().await;
    }
}
