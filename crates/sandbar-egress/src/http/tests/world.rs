//! A session for tests: names resolve to servers on the loopback.

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
use sandbar_core::{
    DomainName, NetworkDecision, NetworkPolicy, SecretName, SecretValue, Transport,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::super::{Origin, intercept, serve_http};
use crate::{
    GatewaySettings,
    egress_context::EgressContext,
    refusal::Refusal,
    rules::Rules,
    sniff::HostPort,
    tls::{Authority, UpstreamTls},
};

pub(super) const SECRET: &str = "hunter2-hunter2-hunter2";

pub(super) struct World {
    pub(super) context: Arc<TestContext>,
    /// Signs the certificates of servers.
    pub(super) server_ca: Arc<Authority>,
    pub(super) directory: tempfile::TempDir,
    tasks: Mutex<JoinSet<()>>,
}

pub(super) struct TestContext {
    rules: RwLock<Arc<Rules>>,
    hosts: Mutex<HashMap<DomainName, SocketAddr>>,
    pub(super) decisions: Mutex<Vec<NetworkDecision>>,
    pub(super) dialled: AtomicUsize,
    has_secrets: bool,
    upstream: UpstreamTls,
    authority: Arc<Authority>,
}

impl EgressContext for TestContext {
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
        self.has_secrets.then(|| SecretValue::new(SECRET).unwrap())
    }

    fn dial<'a>(
        &'a self,
        target: &'a HostPort,
    ) -> BoxFuture<'a, Result<(TcpStream, SocketAddr), Refusal>> {
        Box::pin(async move {
            self.dialled.fetch_add(1, Ordering::SeqCst);
            let (verdict, address) = match target {
                HostPort::Name(name, port) => (
                    self.rules().name(Transport::Tcp, name, *port),
                    self.hosts.lock().unwrap().get(name).copied(),
                ),
                HostPort::Address(address) => (
                    self.rules()
                        .address(Transport::Tcp, address.ip(), address.port(), &[]),
                    Some(*address),
                ),
            };
            if !verdict.is_allowed() {
                return Err(Refusal::denied(verdict.reason().to_owned()));
            }
            let address = address
                .ok_or_else(|| Refusal::unreachable("the name has no address".to_owned()))?;
            let stream = TcpStream::connect(address)
                .await
                .map_err(|error| Refusal::unreachable(error.to_string()))?;
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

/// Returns a policy that allows these entries and adds a secret to requests to `api.example`.
pub(super) fn with_secret(allowed: &str) -> NetworkPolicy {
    policy(&format!(
        r#"{{"allow_list": ["{allowed}"], "secrets":
            [{{"host": "api.example", "header": "Authorization", "secret": "key", "format": "Bearer {{}}"}}]}}"#
    ))
}

impl World {
    pub(super) fn new(policy: NetworkPolicy) -> Self {
        Self::with_secrets(policy, true)
    }

    pub(super) fn without_secrets(policy: NetworkPolicy) -> Self {
        Self::with_secrets(policy, false)
    }

    fn with_secrets(policy: NetworkPolicy, has_secrets: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server_ca = Arc::new(Authority::new("servers").unwrap());
        let trusted = directory.path().join("servers.pem");
        std::fs::write(&trusted, server_ca.certificate_pem()).unwrap();
        let settings = GatewaySettings {
            trusted_certificates: Some(trusted),
            ..GatewaySettings::default()
        };
        let authority = Arc::new(Authority::new("s-1").unwrap());
        std::fs::write(
            directory.path().join("session.pem"),
            authority.certificate_pem(),
        )
        .unwrap();
        let context = Arc::new(TestContext {
            rules: RwLock::new(Arc::new(Rules::new(policy))),
            hosts: Mutex::default(),
            decisions: Mutex::default(),
            dialled: AtomicUsize::new(0),
            has_secrets,
            upstream: UpstreamTls::new(&settings).unwrap(),
            authority,
        });
        Self {
            context,
            server_ca,
            directory,
            tasks: Mutex::default(),
        }
    }

    pub(super) fn set_policy(&self, policy: NetworkPolicy) {
        *self.context.rules.write().unwrap() = Arc::new(Rules::new(policy));
    }

    pub(super) fn leads(&self, name: &str, to: SocketAddr) {
        self.context
            .hosts
            .lock()
            .unwrap()
            .insert(name.parse().unwrap(), to);
    }

    /// Returns the file with the session CA, for clients.
    pub(super) fn trust(&self) -> PathBuf {
        self.directory.path().join("session.pem")
    }

    pub(super) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().unwrap().spawn(task);
    }

    /// Accepts connections as the listeners do. Clients connect to the returned address.
    pub(super) async fn listen(&self, origin: Origin) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let context: Arc<dyn EgressContext> = Arc::clone(&self.context) as _;
        self.run(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let context = Arc::clone(&context);
                match origin.clone() {
                    Origin::Intercepted { name, port } => {
                        connections.spawn(intercept(stream, name, port, context))
                    }
                    origin => connections.spawn(serve_http(stream, origin, context)),
                };
            }
        });
        address
    }

    pub(super) async fn intercepted(&self, name: &str) -> SocketAddr {
        self.listen(Origin::Intercepted {
            name: name.parse().unwrap(),
            port: 443,
        })
        .await
    }

    pub(super) async fn transparent(&self) -> SocketAddr {
        self.listen(Origin::Transparent {
            to: "203.0.113.7:80".parse().unwrap(),
        })
        .await
    }

    /// Returns the recorded decisions, one line each.
    pub(super) fn decided(&self) -> Vec<String> {
        let decisions = self.context.decisions.lock().unwrap();
        let line = |decision: &NetworkDecision| {
            let secrets: Vec<&str> = decision.secrets.iter().map(SecretName::as_str).collect();
            let host = decision
                .host
                .clone()
                .or(decision.address.map(|address| address.ip().to_string()));
            let (verdict, protocol) = (decision.verdict.as_str(), decision.protocol.as_str());
            format!(
                "{verdict} {protocol} {}:{} {}",
                host.unwrap_or_default(),
                decision.port,
                secrets.join(",")
            )
            .trim_end()
            .to_owned()
        };
        decisions.iter().map(line).collect()
    }
}

/// Sends bytes on a new connection and reads until the other side closes.
pub(super) async fn say(to: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    // A refusal may end with a reset after the answer.
    let _ = stream.read_to_end(&mut heard).await;
    String::from_utf8_lossy(&heard).into_owned()
}

/// Sends a request on an open connection and reads its response, which must have a length.
pub(super) async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&heard).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        assert_ne!(
            stream.read_buf(&mut heard).await.unwrap(),
            0,
            "the connection ended after {text:?}"
        );
    }
}
