//! Tests with real sockets on the loopback, which the policies therefore list. Tests with network
//! namespaces are in `sandbar-host`.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]

mod listeners;
mod transparent;
mod tunnels;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use sandbar_core::{
    NetworkDecision, NetworkLimits, NetworkPolicy,
    NetworkProtocol::{self, Proxy, Tcp, Tls},
    NetworkVerdict::{self, Allow, Deny},
    SecretName, SecretValue,
};
use sandbar_netns::{GATEWAY_V4, NetnsListeners, PROXY_PORT};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsConnector;

use super::tcp_flow;
use crate::{
    Authority, DecisionSink, EgressListener, Gateway, GatewaySettings, Secrets, SessionHooks,
    TrafficCounters, egress_context::EgressContext, session_egress::SessionEgress,
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

/// A session and its recorded decisions.
pub(super) struct Session {
    pub(super) egress: Arc<SessionEgress>,
    record: Arc<Record>,
}

/// Parses a policy in its short form or as JSON. Its names may resolve to the loopback.
fn policy(text: &str) -> NetworkPolicy {
    let mut policy: NetworkPolicy = if text.starts_with('{') {
        serde_json::from_str(text).unwrap()
    } else {
        text.parse().unwrap()
    };
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
        let egress = Arc::new(SessionEgress::new(
            gateway.shared(),
            hooks(policy(text), &record),
        ));
        Self { egress, record }
    }

    /// Returns a connection of the session with this original destination.
    async fn connect(&self, to: impl Into<SocketAddr>) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        tokio::spawn(tcp_flow::serve(
            Arc::clone(&self.egress),
            accepted.unwrap().0,
            to.into(),
        ));
        client.unwrap()
    }

    /// Returns verdict, protocol and host of the decisions so far.
    pub(super) fn decisions(&self) -> Vec<(NetworkVerdict, NetworkProtocol, Option<String>)> {
        let decisions = self.record.0.lock().unwrap();
        decisions
            .iter()
            .map(|one| (one.verdict, one.protocol, one.host.clone()))
            .collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.record
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|one| one.reason.clone())
            .collect()
    }
}

/// A server that sends a greeting and echoes what it receives.
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

/// Returns an address without a host, as from a forged DNS answer.
fn elsewhere(port: u16) -> SocketAddr {
    SocketAddr::new("203.0.113.7".parse().unwrap(), port)
}

/// Returns the ClientHello of a real client.
fn hello(name: &str) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut connection =
        ClientConnection::new(Arc::new(config), name.to_owned().try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

async fn read_exactly(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut received = vec![0; length];
    stream.read_exact(&mut received).await.unwrap();
    received
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut received = String::new();
    stream.read_to_string(&mut received).await.unwrap();
    received
}

async fn expect_reset(stream: &mut TcpStream) {
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

/// Performs a TLS handshake that trusts only the session CA.
async fn open_tls(
    session: &Session,
    client: TcpStream,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let pem = session.egress.authority().unwrap().certificate_pem();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
        .connect("localhost".try_into().unwrap(), client)
        .await
}

async fn tunnel(session: &Session, target: &str) -> TcpStream {
    let mut client = session.connect((GATEWAY_V4, PROXY_PORT)).await;
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    client
}

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
