//! Processes that listen: when they are ready, and how they are reached.

use std::{net::SocketAddr, pin::Pin};

use sandbar_core::{
    ErrorCode, NetworkPolicy, ProcessId, ProcessSpec, ProcessStatus, Readiness, RestartPolicy,
    RuntimeKind, SessionId, SessionState, WaitFor,
};
use sandbar_host::RuntimeChoice;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::fixture::{HostFixture, spec};

type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Listens, then sends its name and the bytes it read once the peer has closed its stream. Ends
/// when it reads `end`.
const ECHO: &str = r#"
    use IO::Socket::INET; $| = 1; my ($port, $name) = @ARGV;
    my $server = IO::Socket::INET->new(Listen => 9, LocalAddr => "127.0.0.1", LocalPort => $port, ReuseAddr => 1)
        or die "$!\n";
    while (my $peer = $server->accept) { my $said = do { local $/; <$peer> }; print $peer "$name heard $said";
        close $peer; exit 1 if $said eq "end"; }
"#;

/// Answers requests badly as long as there is no file `well`, and tells the first time in a file
/// `asked`.
const MOODY: &str = r#"
    use IO::Socket::INET; my ($port) = @ARGV;
    my $server = IO::Socket::INET->new(Listen => 9, LocalAddr => "127.0.0.1", LocalPort => $port, ReuseAddr => 1)
        or die "$!\n";
    while (my $peer = $server->accept) {
        my $request = <$peer>; while (<$peer>) { last if /^\r?$/ }
        my $well = -e "well" && $request =~ m{^GET /health HTTP/1.1};
        print $peer $well ? "HTTP/1.1 200 OK\r\n\r\n" : "HTTP/1.1 503 Not yet\r\n\r\n"; close $peer;
        open my $asked, ">", "asked"; close $asked;
    }
"#;

fn perl(program: &str, port: u16, name: &str) -> ProcessSpec {
    ProcessSpec::new(["perl", "-e", program, &port.to_string(), name])
}

/// Returns a free port of this machine, for the runtime without isolation.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

impl HostFixture {
    /// Launches a server that is reached from outside, and tells where.
    async fn serve(&self, id: &SessionId, spec: ProcessSpec) -> (ProcessId, SocketAddr) {
        let info = self.host.launch_process(id, spec).await.unwrap();
        let address = info.address.unwrap().parse().unwrap();
        self.ready(id, &info.id).await;
        (info.id, address)
    }

    /// Launches a server that echoes its input.
    async fn echo(&self, id: &SessionId, port: u16) -> ProcessId {
        let ready = Readiness::Tcp { port: None };
        self.serve(
            id,
            ProcessSpec {
                expose_port: Some(port),
                ready,
                ..perl(ECHO, port, "echo")
            },
        )
        .await
        .0
    }
}

/// Sends bytes, then reads until the peer closes its stream.
async fn say(address: SocketAddr, what: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(what.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Whether a connection is closed without a word, or refused.
async fn is_turned_away(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else {
        return true;
    };
    !matches!(stream.read(&mut [0]).await, Ok(1))
}

pub(crate) fn process_is_running_once_its_probe_passes(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let late = ProcessSpec {
            ready: Readiness::Log {
                text: "all set".into(),
            },
            ..ProcessSpec::new([
                "sh",
                "-c",
                "echo begun >&2; until test -e go; do sleep 0.01; done; echo all set; cat",
            ])
        };
        let process = fixture
            .launch(
                &id,
                ProcessSpec {
                    stdin: sandbar_core::StdinMode::Piped,
                    ..late
                },
            )
            .await;
        assert_eq!(fixture.status(&id, &process).await, ProcessStatus::Starting);
        fixture.write(&id, "/workspace/go", "").await;
        assert!(fixture.ready(&id, &process).await.ready_at.is_some());

        let port = free_port();
        let listening = ProcessSpec {
            ready: Readiness::Tcp { port: Some(port) },
            ..perl(ECHO, port, "echo")
        };
        let process = fixture.launch(&id, listening).await;
        fixture.ready(&id, &process).await;
        // The port is taken: so it did listen.
        let second = fixture.launch(&id, perl(ECHO, port, "second")).await;
        assert_ne!(
            fixture.exited(&id, &second).await.exit.unwrap().code,
            Some(0)
        );

        let port = free_port();
        let ready = Readiness::Http {
            port: Some(port),
            path: "/health".into(),
        };
        let process = fixture
            .launch(
                &id,
                ProcessSpec {
                    ready,
                    ..perl(MOODY, port, "moody")
                },
            )
            .await;
        fixture
            .eventually("it was asked", async || {
                fixture.read(&id, "/workspace/asked").await
            })
            .await;
        assert_eq!(fixture.status(&id, &process).await, ProcessStatus::Starting);
        fixture.write(&id, "/workspace/well", "").await;
        fixture.ready(&id, &process).await;
    })
}

pub(crate) fn exposed_port_lives_as_long_as_its_process(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let port = free_port();
        let spec = ProcessSpec {
            expose_port: Some(port),
            ready: Readiness::Tcp { port: None },
            restart: RestartPolicy::OnFailure { at_most: 1 },
            ..perl(ECHO, port, "echo")
        };
        let (process, address) = fixture.serve(&id, spec).await;
        assert_eq!(address.ip().to_string(), fixture.config.advertise_addr);
        assert_eq!(say(address, "hello").await, "echo heard hello");
        let long = "x".repeat(1 << 20);
        assert_eq!(
            say(address, &long).await.len(),
            "echo heard ".len() + long.len()
        );

        fixture.host.pause_session(&id).await.unwrap();
        assert!(is_turned_away(address).await);
        fixture.host.resume_session(&id).await.unwrap();

        // It ends, is started again, and is still there under its address.
        assert_eq!(say(address, "end").await, "echo heard end");
        let status = async || {
            fixture
                .host
                .get_process_status(&id, &process)
                .await
                .unwrap()
        };
        let is_back = async || {
            Some(status().await).filter(|info| {
                info.restarts == 1 && info.ready_at > info.exit.as_ref().map(|exit| exit.at)
            })
        };
        let info = fixture.eventually("it is back", is_back).await;
        assert_eq!(info.address.unwrap(), address.to_string());
        assert_eq!(say(address, "again").await, "echo heard again");

        let mut open = TcpStream::connect(address).await.unwrap();
        open.write_all(b"half").await.unwrap();
        fixture.host.kill_process(&id, &process, 9).await.unwrap();
        assert_eq!(fixture.exited(&id, &process).await.address, None);
        assert!(TcpStream::connect(address).await.is_err());
        assert!(!matches!(open.read(&mut [0]).await, Ok(1)));
    })
}

pub(crate) fn two_sessions_listen_on_the_same_port(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let mut addresses = Vec::new();
        for name in ["one", "two"] {
            let id = fixture.machine(name).await;
            let spec = ProcessSpec {
                expose_port: Some(8081),
                ready: Readiness::Tcp { port: None },
                ..perl(ECHO, 8081, name)
            };
            addresses.push(fixture.serve(&id, spec).await.1);
        }
        for _ in 0..3 {
            assert_eq!(say(addresses[0], "hello").await, "one heard hello");
            assert_eq!(say(addresses[1], "hello").await, "two heard hello");
        }
        fixture
            .host
            .destroy_session(&"one".parse().unwrap())
            .await
            .unwrap();
        assert!(TcpStream::connect(addresses[0]).await.is_err());
        assert_eq!(say(addresses[1], "still").await, "two heard still");
    })
}

pub(crate) fn port_is_dialed_while_its_session_is_active(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let host = &fixture.host;
        let id = fixture.machine("s").await;
        let port = free_port();
        let code = async || host.dial_port(&id, port).await.unwrap_err().code();
        // A runtime without network namespaces refuses ports that no process exposes.
        let unlistened = match fixture.config.container_runtime {
            RuntimeChoice::Named(RuntimeKind::None) => ErrorCode::PermissionDenied,
            _ => ErrorCode::Unavailable,
        };
        assert_eq!(code().await, unlistened);
        let process = fixture.echo(&id, port).await;
        let mut open = host.dial_port(&id, port).await.unwrap();
        open.write_all(b"hello").await.unwrap();
        open.shutdown().await.unwrap();
        let mut heard = String::new();
        open.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "echo heard hello");

        host.pause_session(&id).await.unwrap();
        assert_eq!(code().await, ErrorCode::SessionPaused);
        host.resume_session(&id).await.unwrap();
        let mut open = host.dial_port(&id, port).await.unwrap();
        open.write_all(b"half").await.unwrap();
        host.kill_process(&id, &process, 9).await.unwrap();
        assert!(!matches!(open.read(&mut [0]).await, Ok(1)));
        fixture.exited(&id, &process).await;
        assert_eq!(code().await, unlistened);
        host.destroy_session(&id).await.unwrap();
        assert_eq!(code().await, ErrorCode::SessionNotFound);
    })
}

pub(crate) fn connection_to_a_port_keeps_its_session_active(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let make = async |name: &str| {
            let mut idle = spec(name);
            idle.base = "host".parse().unwrap();
            idle.idle_timeout = Some(std::time::Duration::from_secs(2));
            fixture.make(idle).await.id
        };
        let used = make("used").await;
        let port = free_port();
        fixture.echo(&used, port).await;
        let open = fixture.host.dial_port(&used, port).await.unwrap();
        // An unused session is paused before.
        let unused = make("unused").await;
        let state = async |id: &SessionId| fixture.host.get_session(id).await.unwrap().state;
        let is_paused =
            async |id: &SessionId| (state(id).await == SessionState::Paused).then_some(());
        fixture
            .eventually("it is paused", async || is_paused(&unused).await)
            .await;
        assert_eq!(state(&used).await, SessionState::Active);
        drop(open);
        fixture
            .eventually("it is paused", async || is_paused(&used).await)
            .await;
    })
}

pub(crate) fn traffic_token_is_per_session_and_survives_restart(
    fixture: &mut HostFixture,
) -> Case<'_> {
    Box::pin(async {
        let policy = NetworkPolicy {
            allow_public_ingress: true,
            required: false,
            ..NetworkPolicy::none()
        };
        let open = sandbar_core::SessionSpec {
            network: Some(policy),
            ..spec("open")
        };
        let (closed, open) = (fixture.session("closed").await, fixture.make(open).await.id);
        let access = async |fixture: &HostFixture, id: &SessionId| {
            fixture.host.port_access(id).await.unwrap()
        };
        let (of_closed, of_open) = (access(fixture, &closed).await, access(fixture, &open).await);
        assert!(!of_closed.public && of_open.public);
        let (token, other) = (of_closed.token.reveal(), of_open.token.reveal());
        assert!(of_closed.token.is(token.as_bytes()) && !of_closed.token.is(other.as_bytes()));
        assert!(!format!("{of_closed:?}").contains(token));

        fixture.restart().await;
        assert_eq!(access(fixture, &closed).await.token.reveal(), token);
        fixture.host.destroy_session(&closed).await.unwrap();
        assert_eq!(
            fixture.host.port_access(&closed).await.unwrap_err().code(),
            ErrorCode::SessionNotFound
        );
        // The token of the old session does not open its successor.
        fixture.session("closed").await;
        assert!(!access(fixture, &closed).await.token.is(token.as_bytes()));
    })
}

pub(crate) fn exposed_ports_of_a_session_are_limited(fixture: &mut HostFixture) -> Case<'_> {
    Box::pin(async {
        let id = fixture.machine("s").await;
        let exposing = || {
            let mut spec = ProcessSpec::new(["sleep", "600"]);
            spec.expose_port = Some(80);
            spec
        };
        let first = fixture.host.launch_process(&id, exposing()).await.unwrap();
        for _ in 1..64 {
            fixture.host.launch_process(&id, exposing()).await.unwrap();
        }
        let refused = fixture.host.launch_process(&id, exposing()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::TooManyCalls);
        assert!(refused.message().contains("64 exposed ports"), "{refused}");
        // Without a port it may run, and a killed one makes room.
        let plain = ProcessSpec::new(["sleep", "600"]);
        fixture.host.launch_process(&id, plain).await.unwrap();
        fixture.host.kill_process(&id, &first.id, 9).await.unwrap();
        fixture
            .host
            .wait_process(&id, &first.id, WaitFor::Exited)
            .await
            .unwrap();
        fixture.host.launch_process(&id, exposing()).await.unwrap();
    })
}
