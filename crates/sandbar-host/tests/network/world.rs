//! A host in a small internet, and sessions that are asked to reach something.

use sandbar_core::{
    AuditEntry, AuditQuery, BaseName, ExecEvent, ExecSpec, NetworkPolicy, PageRequest, ProcessId,
    ProcessSpec, ProcessStatus, Readiness, RuntimeKind, SessionId,
};
use sandbar_testing::{
    Backend,
    internet::{self, Internet},
};

use crate::{
    fixture::{HostFixture, spec},
    guest::{Guests, PROGRAM},
};

/// A host, and the internet it is in.
pub(crate) struct World<'a> {
    pub(crate) fixture: &'a mut HostFixture,
    pub(crate) internet: Internet,
    guests: Guests,
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

/// Runs a case on a fresh host.
pub(crate) fn run(runtime: RuntimeKind, case: impl AsyncFnOnce(&mut World<'_>) + 'static) {
    // Before everything else: it moves this thread, and with it all that come.
    let internet = Internet::start();
    let (resolver, authority) = (internet.dns_server(), internet.authority().to_owned());
    HostFixture::run_with(
        Backend::BtrfsImage,
        runtime,
        |config| {
            config.dns_servers = vec![resolver.to_string().parse().unwrap()];
            config.egress_ca_file = Some(authority);
        },
        |fixture| {
            Box::pin(async move {
                case(&mut World {
                    fixture,
                    internet,
                    guests: Guests::default(),
                })
                .await;
            })
        },
    );
}

impl World<'_> {
    /// A session with a policy in its short form, and the guest in it.
    pub(crate) async fn session(&self, name: &str, policy: &str) -> SessionId {
        self.session_with(name, policy.parse().unwrap()).await
    }

    pub(crate) async fn session_with(&self, name: &str, policy: NetworkPolicy) -> SessionId {
        let mut wanted = spec(name);
        wanted.base = BaseName::new("host").unwrap();
        wanted.network = Some(policy);
        let id = self.fixture.make(wanted).await.id;
        self.fixture.write(&id, "guest.py", PROGRAM).await;
        let authority = std::fs::read_to_string(self.internet.authority()).unwrap();
        self.fixture.write(&id, "authority.pem", &authority).await;
        id
    }

    pub(crate) async fn set(&self, id: &SessionId, policy: &str) {
        self.fixture
            .host
            .set_network(id, policy.parse().unwrap())
            .await
            .unwrap();
    }

    pub(crate) async fn exec(&self, id: &SessionId, spec: ExecSpec) -> Said {
        let mut command = self.fixture.host.exec(id, spec).await.unwrap();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(event) = command.next_event().await {
            match event {
                ExecEvent::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                ExecEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                ExecEvent::Exited(status) => {
                    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                    return Said {
                        stdout: text(stdout),
                        stderr: text(stderr),
                        code: status.code,
                    };
                }
            }
        }
        panic!("the command never exited");
    }

    pub(crate) async fn shell(&self, id: &SessionId, script: &str) -> Said {
        self.exec(id, ExecSpec::new(["/bin/sh", "-c", script]))
            .await
    }

    /// Runs one attempt of the guest; returns its report, `reached: …` or `refused: …`.
    pub(crate) async fn guest(&self, id: &SessionId, arguments: &[&str]) -> String {
        self.guests.attempt(&self.fixture.host, id, arguments).await
    }

    /// Starts a long-running Python program, and waits until it reports readiness.
    pub(crate) async fn launch(
        &self,
        id: &SessionId,
        program: &str,
        arguments: &[&str],
    ) -> ProcessId {
        let argv = ["/usr/bin/python3", "-c", program]
            .into_iter()
            .chain(arguments.iter().copied());
        let spec = ProcessSpec {
            ready: Readiness::Log {
                text: "ready".into(),
            },
            ..ProcessSpec::new(argv)
        };
        let process = self.fixture.host.launch_process(id, spec).await.unwrap().id;
        let running = async || {
            let info = self
                .fixture
                .host
                .get_process_status(id, &process)
                .await
                .unwrap();
            assert!(
                info.status == ProcessStatus::Starting || info.status == ProcessStatus::Running,
                "{info:?}"
            );
            (info.status == ProcessStatus::Running).then_some(())
        };
        self.fixture.eventually("a program is ready", running).await;
        process
    }

    /// Ends the guests of a session.
    pub(crate) fn dismiss(&self, id: &SessionId) {
        self.guests.dismiss(id);
    }

    /// The guest gets there and receives `answer`.
    pub(crate) async fn reaches(&self, id: &SessionId, arguments: &[&str], answer: &str) {
        let line = self.guest(id, arguments).await;
        assert!(
            line.starts_with("reached: ") && line.contains(answer),
            "{arguments:?}: {line}"
        );
    }

    /// Asserts that an attempt is refused at once; returns the report.
    pub(crate) async fn is_refused(&self, id: &SessionId, arguments: &[&str]) -> String {
        let line = self.guest(id, arguments).await;
        assert!(
            line.starts_with("refused: ") && !line.contains("timed out"),
            "{arguments:?}: {line}"
        );
        line
    }

    /// Checks that the attacker, private servers and the host received nothing.
    pub(crate) fn no_server_was_reached(&self) {
        for address in [
            internet::ATTACKER,
            internet::ATTACKER_V6,
            internet::INTRANET,
            internet::METADATA,
        ] {
            assert!(
                !self.internet.was_reached(address),
                "{address}: {:?}",
                self.internet.received_at(address)
            );
        }
        for address in [internet::HOST, "127.0.0.1", "::1"] {
            assert_eq!(self.internet.received_at(address), [], "{address}");
        }
        let of_attacker = |heard: &internet::Heard| {
            let of_attacker =
                |name: &String| name.ends_with("attacker.example") || name == "evil.example";
            heard.host.as_ref().is_some_and(of_attacker)
        };
        let heard: Vec<_> = self
            .internet
            .received()
            .into_iter()
            .filter(of_attacker)
            .collect();
        assert_eq!(heard, []);
    }

    /// Lists the egress decisions about a session, oldest first.
    pub(crate) async fn decisions(&self, id: &SessionId) -> Vec<AuditEntry> {
        let page = PageRequest {
            size: PageRequest::MAX_SIZE,
            token: None,
        };
        let log = self
            .fixture
            .host
            .audit(
                id,
                AuditQuery {
                    page,
                    ..AuditQuery::default()
                },
            )
            .await
            .unwrap()
            .items;
        log.into_iter()
            .filter(|entry| entry.what.starts_with("network_"))
            .collect()
    }

    /// Waits until the log has a decision with this verdict about this host or address, with this
    /// in its reason.
    pub(crate) async fn was_decided(
        &self,
        id: &SessionId,
        verdict: &str,
        about: &str,
        reason: &str,
    ) -> AuditEntry {
        let what = format!("network_{verdict}");
        let of = |entry: &AuditEntry, key: &str| {
            entry
                .detail
                .get(key)
                .and_then(|value| value.as_str())
                .map(str::to_owned)
        };
        let fits = |entry: &AuditEntry| {
            let of_host = of(entry, "host").is_some_and(|host| host == about);
            let of_address = of(entry, "address").is_some_and(|address| address.starts_with(about));
            entry.what == what
                && (of_host || of_address)
                && of(entry, "reason").is_some_and(|given| given.contains(reason))
        };
        let look = async || {
            self.decisions(id)
                .await
                .into_iter()
                .find(|entry| fits(entry))
        };
        self.fixture
            .eventually(&format!("{verdict} of {about} is in the log"), look)
            .await
    }

    /// Returns the value of a metric sample, by its name and labels; zero if it is missing.
    pub(crate) async fn metric(&self, sample: &str) -> f64 {
        let text = self.fixture.host.metrics_text().await;
        let found = text
            .lines()
            .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        found.map_or(0.0, |value| value.parse().unwrap())
    }
}
