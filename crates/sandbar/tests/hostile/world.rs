//! A host with a probe on it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::AtomicU64,
    time::Duration,
};

use sandbar_client::Client;
use sandbar_core::{
    BaseName, ByteCount, ErrorCode, HOST_BASE, NetworkPolicy, Resources, RuntimeKind, SessionId,
    SessionSpec, TokenName, TokenScope,
};
use sandbar_testing::{TestServer, TestServerOptions};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    attacker::Attacker,
    http,
    internet::Internet,
    probe::{Probe, Sample},
    process::{HostProcess, processes_of},
};

/// Time to destroy a session, and for what it had to disappear.
const CLEANUP_TIMEOUT: Duration = Duration::from_mins(1);
/// Descriptors that the host may hold more than before an attempt: connections of clients, prepared
/// boxes.
const SPARE_DESCRIPTORS: usize = 64;
/// Bound of the host's resident memory in a debug build. The aim for a release build is 300 MiB.
const MAX_HOST_MIB: f64 = 384.0;

/// A host, its process, and a probe that works.
#[derive(Debug)]
pub(crate) struct World {
    // Before the server, so that it stops first.
    pub(crate) probe: Probe,
    admin: Client,
    address: SocketAddr,
    process: HostProcess,
    server: TestServer,
    internet: Option<Internet>,
}

/// State of the host before an attempt.
#[derive(Debug)]
pub(crate) struct Before {
    descriptors: usize,
}

/// Returns the options of a host.
pub(crate) fn options(runtime: RuntimeKind) -> TestServerOptions {
    TestServerOptions::new(env!("CARGO_BIN_EXE_sandbar"))
        .argument("--storage")
        .argument("btrfs")
        .argument("--runtime")
        .argument(runtime.as_str())
        .variable("SANDBAR_POOL_IMAGE_LIMIT", "2G")
        .variable("SANDBAR_HEALTH_CHECK_INTERVAL", "1s")
}

impl World {
    /// Connects to a new host and starts its probe. Sessions of attackers may dial the
    /// servers of `internet`.
    pub(crate) async fn new(server: TestServer, internet: Option<Internet>) -> Self {
        let token = fs::read_to_string(server.data_dir().join("token")).unwrap();
        let admin = Client::connect(server.url(), Some(token.trim()))
            .await
            .unwrap();
        let id: SessionId = "probe".parse().unwrap();
        let (token, _) = session(&admin, &id, None).await;
        let address = server.url().trim_start_matches("http://").parse().unwrap();
        Self {
            probe: Probe::start(server.url(), &token, id),
            admin,
            address,
            process: HostProcess::of(server.pid()),
            server,
            internet,
        }
    }

    /// Measures the probe alone.
    pub(crate) async fn alone(&self, rounds: usize) -> Vec<Sample> {
        // The first rounds start the box and the connection.
        self.probe.wait_for(3).await.unwrap();
        self.probe.take_samples();
        self.probe.wait_for(rounds).await.unwrap();
        self.probe.take_samples()
    }

    /// Creates a session, its token and an attacker with both.
    pub(crate) async fn attacker(&self, number: usize) -> (Attacker, Before) {
        self.process.reset_peak();
        let before = Before {
            descriptors: self.process.descriptors(),
        };
        // Found in the environment of every process of the session.
        let id = format!("attacker-{}-{number}", std::process::id());
        let id: SessionId = id.parse().unwrap();
        let policy = self.internet.as_ref().map(|_| Internet::policy());
        let (token, client_url) = session(&self.admin, &id, policy).await;
        let client = Client::connect(&client_url, Some(&token)).await.unwrap();
        let rounds = self.probe.rounds();
        let attacker = Attacker {
            id,
            client,
            token,
            address: self.address,
            target: self.secret(),
            ports: self.internet.as_ref().map(Internet::ports),
            rounds,
            calls: AtomicU64::new(0),
        };
        (attacker, before)
    }

    /// Returns a file of the host that no attacker can name in a box.
    fn secret(&self) -> PathBuf {
        self.server.data_dir().join("written-by-an-attacker")
    }

    /// Destroys the session of an attempt and returns what is wrong with the host afterwards.
    pub(crate) async fn check(&self, id: &SessionId, before: &Before) -> Vec<String> {
        let mut wrong = Vec::new();
        match timeout(CLEANUP_TIMEOUT, self.admin.destroy_session(id)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.code() == ErrorCode::SessionNotFound => {}
            Ok(Err(error)) => wrong.push(format!("destroy failed: {}", error.chain())),
            Err(_) => wrong.push(format!("destroy did not end in {CLEANUP_TIMEOUT:?}")),
        }
        if let Err(error) = self.probe.wait_for(2).await {
            wrong.push(error);
        }
        wrong.extend(self.probe.take_failures());
        let headers = [("connection", "close")];
        let ready = http::request(self.address, "GET", "/readyz", &headers, b"").await;
        if ready.status != 200 {
            wrong.push(format!("readyz: {} {:.300}", ready.status, ready.text));
        }
        if !self.process.runs() {
            wrong.push(format!("the host has died: {}", tail(&self.server.said())));
            return wrong;
        }
        let peak = self.process.peak_mib();
        if peak > MAX_HOST_MIB {
            wrong.push(format!("the host took {peak:.0} MiB"));
        }
        if self.secret().exists() {
            let _ = fs::remove_file(self.secret());
            wrong.push("the attacker has written a file of the host".into());
        }
        let deadline = Instant::now() + CLEANUP_TIMEOUT;
        loop {
            let left = self.left_of(id, before).await;
            if left.is_empty() {
                return wrong;
            }
            if Instant::now() > deadline {
                wrong.extend(left);
                return wrong;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns what is left of a destroyed session.
    async fn left_of(&self, id: &SessionId, before: &Before) -> Vec<String> {
        let mut left = Vec::new();
        match timeout(CLEANUP_TIMEOUT, self.admin.get_session(id)).await {
            Ok(Err(error)) if error.code() == ErrorCode::SessionNotFound => {}
            other => left.push(format!("the session is left: {other:?}")),
        }
        let named = |kind: &str, all: Vec<String>| {
            all.into_iter()
                .map(|one| format!("{kind} is left: {one}"))
                .collect::<Vec<_>>()
        };
        left.extend(named("process", processes_of(id.as_str())));
        left.extend(named("mount", self.process.mounts_of(id.as_str())));
        left.extend(named("entry", self.entries_of(id.as_str())));
        let (now, then) = (self.process.descriptors(), before.descriptors);
        if now > then + SPARE_DESCRIPTORS {
            left.push(format!("{now} descriptors are open, {then} were before"));
        }
        left
    }

    /// Returns the files and directories of the data directory that name the session.
    fn entries_of(&self, id: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut directories = vec![(self.server.data_dir().to_owned(), 0)];
        while let Some((directory, depth)) = directories.pop() {
            for entry in fs::read_dir(in_host(self.server.pid(), &directory))
                .into_iter()
                .flatten()
                .filter_map(Result::ok)
            {
                let path = directory.join(entry.file_name());
                if entry.file_name().to_string_lossy().contains(id) {
                    found.push(path.display().to_string());
                } else if depth < 3 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    directories.push((path, depth + 1));
                }
            }
        }
        found
    }

    /// Returns the peak of the host's memory since the attacker was created.
    pub(crate) fn peak_mib(&self) -> f64 {
        self.process.peak_mib()
    }
}

/// Returns a path as the host sees it, which mounts in a namespace of its own.
fn in_host(pid: u32, path: &Path) -> PathBuf {
    Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap_or(path))
}

/// Creates a session and a token for it alone. Returns the token, and the URL of the host.
async fn session(
    admin: &Client,
    id: &SessionId,
    network: Option<NetworkPolicy>,
) -> (String, String) {
    let spec = SessionSpec {
        id: Some(id.clone()),
        quota: Some(ByteCount::mib(400)),
        resources: Resources {
            memory: Some(ByteCount::mib(256)),
            pids: Some(256),
            ..Resources::default()
        },
        env: [("HOSTILE".to_owned(), id.to_string())].into(),
        network,
        ..SessionSpec::new(BaseName::new(HOST_BASE).unwrap())
    };
    admin.create_session(spec).await.unwrap();
    let name: TokenName = id.as_str().parse().unwrap();
    let scopes = [TokenScope::Session(id.clone())];
    let token = admin.create_token(&name, &scopes, None).await.unwrap();
    (token.secret.reveal().to_owned(), admin.url().to_owned())
}

/// Returns the last lines.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join(" | ")
}
