//! A gate for tests: names lead to servers on loopback.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::BoxFuture;
use sandbar_core::{DomainName, NetworkDecision, NetworkPolicy, SecretName, SecretValue, Transport};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::super::{Origin, Outside, Refusal, serve_http};
use crate::{
    GatewaySettings,
    rules::Rules,
    sniff::HostPort,
    tls::{Authority, UpstreamTls, intercept},
};

pub(super) const SECRET: &str = "hunter2-hunter2-hunter2";

pub(super) struct World {
    pub(super) gate: Arc<TestGate>,
    /// Signs the certificates of servers.
    pub(super) outside: Arc<Authority>,
    pub(super) directory: tempfile::TempDir,
    tasks: Mutex<JoinSet<()>>,
}

pub(super) struct TestGate {
    rules: RwLock<Arc<Rules>>,
    hosts: Mutex<HashMap<DomainName, SocketAddr>>,
    pub(super) decisions: Mutex<Vec<NetworkDecision>>,
    pub(super) dialled: AtomicUsize,
    knows_secrets: bool,
    upstream: UpstreamTls,
    authority: Arc<Authority>,
}

impl Outside for TestGate {
    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap())
    }

    fn own_addresses(&self) -> Arc<[IpAddr]> {
        Arc::from([])
    }

    fn record(&self, decision: NetworkDecision) {
        self.decisions.lock().unwrap().push(decision);
    }

    fn secret(&self, _name: &SecretName) -> Option<SecretValue> {
        self.knows_secrets.then(|| SecretValue::new(SECRET).unwrap())
    }

    fn dial<'a>(&'a self, target: &'a HostPort) -> BoxFuture<'a, Result<(TcpStream, SocketAddr), Refusal>> {
        Box::pin(async move {
            self.dialled.fetch_add(1, Ordering::SeqCst);
            let (verdict, address) = match target {
                HostPort::Name(name, port) => {
                    (self.rules().name(Transport::Tcp, name, *port), self.hosts.lock().unwrap().get(name).copied())
                }
                HostPort::Address(address) => {
                    (self.rules().address(Transport::Tcp, address.ip(), address.port(), &[]), Some(*address))
                }
            };
            if !verdict.is_allowed() {
                return Err(Refusal { reason: verdict.reason().to_owned(), denied: true });
            }
            let unreachable = |reason: String| Refusal { reason, denied: false };
            let address = address.ok_or_else(|| unreachable("the name leads nowhere".to_owned()))?;
            let stream = TcpStream::connect(address).await.map_err(|error| unreachable(error.to_string()))?;
            Ok((stream, address))
        })
    }

    fn upstream_tls(&self) -> &UpstreamTls {
        &self.upstream
    }

    fn authority(&self) -> Option<&Arc<Authority>> {
        Some(&self.authority)
    }
}

pub(super) fn policy(json: &str) -> NetworkPolicy {
    serde_json::from_str(json).unwrap()
}

/// A policy that allows these, and puts a secret into requests to `api.example`.
pub(super) fn with_secret(allowed: &str) -> NetworkPolicy {
    policy(&format!(
        r#"{{"allow_list": ["{allowed}"], "secrets":
            [{{"host": "api.example", "header": "Authorization", "secret": "key", "format": "Bearer {{}}"}}]}}"#
    ))
}

impl World {
    pub(super) fn new(policy: NetworkPolicy) -> Self {
        Self::knowing(policy, true)
    }

    pub(super) fn without_secrets(policy: NetworkPolicy) -> Self {
        Self::knowing(policy, false)
    }

    fn knowing(policy: NetworkPolicy, knows_secrets: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let outside = Arc::new(Authority::new("outside").unwrap());
        let trusted = directory.path().join("outside.pem");
        std::fs::write(&trusted, outside.certificate_pem()).unwrap();
        let settings = GatewaySettings { trusted_certificates: Some(trusted), ..GatewaySettings::default() };
        let authority = Arc::new(Authority::new("s-1").unwrap());
        std::fs::write(directory.path().join("session.pem"), authority.certificate_pem()).unwrap();
        let gate = Arc::new(TestGate {
            rules: RwLock::new(Arc::new(Rules::new(policy))),
            hosts: Mutex::default(),
            decisions: Mutex::default(),
            dialled: AtomicUsize::new(0),
            knows_secrets,
            upstream: UpstreamTls::new(&settings).unwrap(),
            authority,
        });
        Self { gate, outside, directory, tasks: Mutex::default() }
    }

    pub(super) fn set_policy(&self, policy: NetworkPolicy) {
        *self.gate.rules.write().unwrap() = Arc::new(Rules::new(policy));
    }

    pub(super) fn leads(&self, name: &str, to: SocketAddr) {
        self.gate.hosts.lock().unwrap().insert(name.parse().unwrap(), to);
    }

    /// Where the session's certificate is, for clients.
    pub(super) fn trust(&self) -> PathBuf {
        self.directory.path().join("session.pem")
    }

    pub(super) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().unwrap().spawn(task);
    }

    /// Takes connections as the gate does; clients connect to what is returned.
    pub(super) async fn gate(&self, origin: Origin) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gate: Arc<dyn Outside> = Arc::clone(&self.gate) as _;
        self.run(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let gate = Arc::clone(&gate);
                match origin.clone() {
                    Origin::Intercepted { name, port } => connections.spawn(intercept(stream, name, port, gate)),
                    origin => connections.spawn(serve_http(stream, origin, gate)),
                };
            }
        });
        address
    }

    pub(super) async fn opened(&self, name: &str) -> SocketAddr {
        self.gate(Origin::Intercepted { name: name.parse().unwrap(), port: 443 }).await
    }

    pub(super) async fn transparent(&self) -> SocketAddr {
        self.gate(Origin::Transparent { to: "203.0.113.7:80".parse().unwrap() }).await
    }

    /// What was decided, a line each.
    pub(super) fn decided(&self) -> Vec<String> {
        let decisions = self.gate.decisions.lock().unwrap();
        let line = |decision: &NetworkDecision| {
            let secrets: Vec<&str> = decision.secrets.iter().map(SecretName::as_str).collect();
            let host = decision.host.clone().or(decision.address.map(|address| address.ip().to_string()));
            let (verdict, protocol) = (decision.verdict.as_str(), decision.protocol.as_str());
            format!("{verdict} {protocol} {}:{} {}", host.unwrap_or_default(), decision.port, secrets.join(","))
                .trim_end()
                .to_owned()
        };
        decisions.iter().map(line).collect()
    }
}

/// Sends these bytes on a connection of their own and reads until the other side has had enough.
pub(super) async fn say(to: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    // A refusal may come as a reset after the answer.
    let _ = stream.read_to_end(&mut heard).await;
    String::from_utf8_lossy(&heard).into_owned()
}

/// Sends one request on a connection that stays open, and reads its response, whose body has a length.
pub(super) async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&heard).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        assert_ne!(stream.read_buf(&mut heard).await.unwrap(), 0, "the connection ended after {text:?}");
    }
}
