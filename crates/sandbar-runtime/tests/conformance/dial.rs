//! Connections from the host to ports in a box.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandbar_core::{ErrorCode, Resources, RuntimeKind};
use sandbar_runtime::{DialedStream, ExecEvent, ExecSpec, RunningCommand};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    test_box::{Ended, TestBox},
    world::World,
};

/// Timeout of a dial that must succeed.
const DIAL_TIMEOUT: Duration = Duration::from_mins(1);

/// Listens on loopback at the given port, or at a free one, and prints the port.
const LISTEN: &str = r#"
    use Socket; $| = 1; $SIG{CHLD} = "IGNORE"; my ($family, $port) = @ARGV;
    my $domain = $family == 4 ? PF_INET : PF_INET6;
    my $address = $family == 4 ? sockaddr_in($port, INADDR_LOOPBACK)
        : pack_sockaddr_in6($port, Socket::inet_pton(AF_INET6, "::1"));
    my $server;
    socket($server, $domain, SOCK_STREAM, 0) && bind($server, $address) && listen($server, 100)
        or do { print "0\n"; exit };
    print +($family == 4 ? (sockaddr_in(getsockname($server)))[0] : (unpack_sockaddr_in6(getsockname($server)))[0]), "\n";
"#;

/// Echo server for concurrent clients, which begins with a greeting.
const ECHO: &str = r"
    for (;;) {
        # One kernel interrupts it when it is written to disk.
        accept(my $peer, $server) or next;
        if (!fork) {
            close $server; syswrite($peer, $ARGV[2]);
            while (my $count = sysread($peer, my $bytes, 65536)) {
                my $sent = 0;
                while ($sent < $count) { $sent += syswrite($peer, $bytes, $count - $sent, $sent) // exit }
            }
            exit;
        }
        close $peer;
    }
";

pub(crate) struct Server {
    pub(crate) port: u16,
    /// Server process; drop ends it.
    command: RunningCommand,
}

impl Server {
    /// Starts a server; port 0 selects a free one. Returns `None` if the port cannot be bound.
    async fn start(test_box: &TestBox, script: &str, arguments: [&str; 3]) -> Option<Self> {
        let script = format!("{LISTEN}{script}");
        let argv = ["perl", "-e", &script].into_iter().chain(arguments);
        let mut command = test_box.start(ExecSpec::new(argv)).await.unwrap();
        let Some(ExecEvent::Stdout(told)) = command.next_event().await else {
            panic!("the server tells its port")
        };
        let port = std::str::from_utf8(&told).unwrap().trim().parse().unwrap();
        (port > 0).then_some(Self { port, command })
    }

    pub(crate) async fn echo(test_box: &TestBox) -> Self {
        Self::start(test_box, ECHO, ["4", "0", ""]).await.unwrap()
    }
}

pub(crate) async fn connect(test_box: &TestBox, port: u16) -> DialedStream {
    test_box
        .dial(port, DIAL_TIMEOUT)
        .await
        .unwrap()
        .into_stream()
        .unwrap()
}

/// Writes `word` and expects the server to echo it.
pub(crate) async fn talk(stream: &mut DialedStream, word: &str) {
    stream.write_all(word.as_bytes()).await.unwrap();
    let mut received = vec![0; word.len()];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(received, word.as_bytes());
}

pub(crate) async fn read_all(stream: &mut DialedStream) -> Vec<u8> {
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    received
}

async fn refusal(test_box: &TestBox, port: u16, timeout: Duration) -> ErrorCode {
    test_box.dial(port, timeout).await.unwrap_err().code()
}

pub(crate) fn dial_to_server_relays_every_byte_both_ways(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let server = Server::echo(world).await;
        let mut stream = connect(world, server.port).await;
        talk(&mut stream, "hello").await;
        let sent: Vec<u8> = (0..10_000_000_u32)
            .map(|number| (number % 251).to_le_bytes()[0])
            .collect();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let expected = sent.clone();
        let writing = tokio::spawn(async move {
            writer.write_all(&sent).await.unwrap();
            // The server reads end of file, and the rest of its answer still arrives.
            writer.shutdown().await.unwrap();
            assert!(writer.write_all(b"more").await.is_err());
        });
        let mut received = Vec::new();
        reader.read_to_end(&mut received).await.unwrap();
        writing.await.unwrap();
        assert!(received == expected);
    });
}

pub(crate) fn dial_to_port_without_listener_is_unavailable(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let server = Server::echo(world).await;
        let port = server.port;
        drop(server);
        World::wait_for("the server to end", async || {
            world.dial(port, DIAL_TIMEOUT).await.is_err()
        })
        .await;
        let error = world.dial(port, DIAL_TIMEOUT).await.unwrap_err();
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::Unavailable, Some("port"))
        );
        assert!(error.message().contains(&port.to_string()) && error.hint().is_some());
        assert_eq!(
            refusal(world, 0, DIAL_TIMEOUT).await,
            ErrorCode::InvalidArgument
        );
        // A port in the range of local ports, dialed often: the socket must not be connected to
        // itself.
        for _ in 0..200 {
            assert_eq!(
                refusal(world, port, DIAL_TIMEOUT).await,
                ErrorCode::Unavailable
            );
        }
    });
}

pub(crate) fn same_port_in_two_boxes_reaches_each_server(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let other = world.open_box("two", &Resources::default());
        let one = Server::start(world, ECHO, ["4", "8081", "this is one"])
            .await
            .unwrap();
        let two = Server::start(&other, ECHO, ["4", "8081", "this is two"])
            .await
            .unwrap();
        for _ in 0..3 {
            for (test_box, server, greeting) in [
                (&**world, &one, "this is one"),
                (&other, &two, "this is two"),
            ] {
                let mut stream = connect(test_box, server.port).await;
                stream.shutdown().await.unwrap();
                assert_eq!(read_all(&mut stream).await, greeting.as_bytes());
            }
        }
        drop(one);
        World::wait_for("the first to end", async || {
            world.dial(8081, DIAL_TIMEOUT).await.is_err()
        })
        .await;
        connect(&other, 8081).await;
        other.stop().await;
    });
}

pub(crate) fn fifty_connections_stay_open_and_apart(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let server = Server::echo(world).await;
        let dialing: Vec<_> = (0..50)
            .map(|number| {
                let (test_box, port) = (TestBox::clone(world), server.port);
                tokio::spawn(async move {
                    let mut stream = connect(&test_box, port).await;
                    talk(&mut stream, &format!("I am {number}")).await;
                    stream
                })
            })
            .collect();
        let mut streams = Vec::new();
        for stream in dialing {
            streams.push(stream.await.unwrap());
        }
        let talking: Vec<_> = streams
            .into_iter()
            .enumerate()
            .map(|(number, mut stream)| {
                tokio::spawn(async move {
                    for round in 0..10 {
                        talk(&mut stream, &format!("{number} {round} ").repeat(1000)).await;
                    }
                    stream.shutdown().await.unwrap();
                    assert!(read_all(&mut stream).await.is_empty());
                })
            })
            .collect();
        for one in talking {
            one.await.unwrap();
        }
    });
}

pub(crate) fn dial_reaches_server_on_ipv6_loopback(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // Where the kernel has no IPv6 there is nothing to reach.
        let Some(server) = Server::start(world, ECHO, ["6", "0", ""]).await else {
            return;
        };
        talk(&mut connect(world, server.port).await, "hello").await;
    });
}

pub(crate) fn connection_closed_by_server_reads_end_of_file(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script =
            r#"accept(my $peer, $server); syswrite($peer, "farewell"); close $peer; sleep 5656"#;
        let server = Server::start(world, script, ["4", "0", ""]).await.unwrap();
        let mut stream = connect(world, server.port).await;
        assert_eq!(read_all(&mut stream).await, b"farewell");
        let mut sent = 0;
        World::wait_for("the end to be noticed", async || {
            sent += 1;
            stream.write_all(b"too late").await.is_err()
        })
        .await;
        assert!(sent > 0);
    });
}

pub(crate) fn server_that_does_not_read_blocks_no_other(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let deaf = Server::start(
            world,
            "accept(my $peer, $server); sleep 5656",
            ["4", "0", ""],
        )
        .await
        .unwrap();
        let mut stream = connect(world, deaf.port).await;
        let (echo, filler) = (Server::echo(world).await, vec![0; 1 << 20]);
        let mut other = connect(world, echo.port).await;
        tokio::select! {
            _ = async { loop { stream.write_all(&filler).await.unwrap() } } => {}
            () = async {
                for _ in 0..200 {
                    talk(&mut other, "still here").await;
                }
                assert_eq!(world.finish(ExecSpec::new(["echo", "here"])).await.stdout, "here\n");
            } => {}
        }
    });
}

pub(crate) fn dial_to_frozen_box_times_out_and_works_after_thaw(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // Tells how many have come.
        let script = "while (accept(my $peer, $server)) { syswrite($peer, ++$count); close $peer }";
        let server = Server::start(world, script, ["4", "0", ""]).await.unwrap();
        let mut before = connect(world, server.port).await;
        assert_eq!(read_all(&mut before).await, b"1");
        world.freeze().await;
        for _ in 0..3 {
            assert_eq!(
                refusal(world, server.port, Duration::from_millis(50)).await,
                ErrorCode::Timeout
            );
        }
        // A dial with a longer timeout is answered.
        let (test_box, port) = (TestBox::clone(world), server.port);
        let waiting =
            tokio::spawn(async move { read_all(&mut connect(&test_box, port).await).await });
        world.thaw().await;
        assert_eq!(waiting.await.unwrap(), b"2", "those who gave up never came");
        assert_eq!(read_all(&mut connect(world, server.port).await).await, b"3");
        assert_eq!(
            world.finish(ExecSpec::new(["echo", "here"])).await.stdout,
            "here\n"
        );
    });
}

pub(crate) fn dials_to_frozen_box_are_bounded(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let server = Server::echo(world).await;
        world.freeze().await;
        for _ in 0..100 {
            assert_eq!(
                refusal(world, server.port, Duration::from_millis(1)).await,
                ErrorCode::Timeout
            );
        }
        world.thaw().await;
        talk(&mut connect(world, server.port).await, "hello").await;
    });
}

pub(crate) fn stopped_box_closes_its_connections(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let test_box = world.open_box("two", &Resources::default());
        let server = Server::echo(&test_box).await;
        let mut streams = [
            connect(&test_box, server.port).await,
            connect(&test_box, server.port).await,
        ];
        for stream in &mut streams {
            talk(stream, "hello").await;
        }
        test_box.stop().await;
        for stream in &mut streams {
            assert!(read_all(stream).await.is_empty());
            assert!(stream.write_all(b"more").await.is_err());
        }
        assert!(test_box.on_host().is_empty());
    });
}

pub(crate) fn dial_to_dead_or_stopped_box_fails(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let test_box = world.open_box("two", &Resources::default());
        let server = Server::echo(&test_box).await;
        let mut stream = connect(&test_box, server.port).await;
        for pid in test_box.init_on_host() {
            kill_process(
                Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(),
                Signal::KILL,
            )
            .unwrap();
        }
        assert!(read_all(&mut stream).await.is_empty());
        World::wait_for("the box to be gone", async || !test_box.is_alive()).await;
        let error = test_box.dial(server.port, DIAL_TIMEOUT).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable);
        test_box.stop().await;
        assert_eq!(
            refusal(&test_box, server.port, DIAL_TIMEOUT).await,
            ErrorCode::InvalidState
        );
    });
}

/// Counts the descriptors of a process whose link target contains one of `wanted`.
fn descriptors(process: &str, wanted: &[&str]) -> usize {
    // The process may end during the scan.
    let entries = std::fs::read_dir(format!("/proc/{process}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets
        .filter(|target| {
            wanted
                .iter()
                .any(|part| target.to_string_lossy().contains(part))
        })
        .count()
}

/// Returns whether this process is a gVisor sentry.
fn is_kernel(process: &str) -> bool {
    std::fs::read(format!("/proc/{process}/cmdline"))
        .is_ok_and(|line| line.starts_with(b"runsc-sandbox"))
}

/// Counts the open connections of the box.
fn connections_of(kind: RuntimeKind, test_box: &TestBox) -> usize {
    let init = test_box
        .init_on_host()
        .into_iter()
        .map(|pid| pid.to_string());
    match kind {
        // The kernel in user space holds a named pipe for each. Its gofer remembers names that are
        // gone, up to a limit.
        RuntimeKind::Gvisor => init
            .filter(|pid| is_kernel(pid))
            .map(|pid| descriptors(&pid, &["/live"]))
            .sum(),
        // Beside the two sockets to the host.
        RuntimeKind::Native | RuntimeKind::None => {
            init.map(|pid| descriptors(&pid, &["socket:"]))
                .sum::<usize>()
                - 2
        }
    }
}

pub(crate) fn dropped_connections_leave_nothing_in_the_box(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // The server neither reads nor writes: only the host can end a connection.
        let script = "while (accept(my $peer, $server)) { push @peers, $peer }";
        let server = Server::start(world, script, ["4", "0", ""]).await.unwrap();
        drop(connect(world, server.port).await);
        let pipes = || descriptors("self", &["pipe:", "/in", "/out", "/err", "/live"]);
        let (before, processes) = (pipes(), world.stats().await.processes);
        for round in 0..3 {
            let mut streams = Vec::new();
            for _ in 0..60 {
                let mut stream = connect(world, server.port).await;
                match round {
                    0 => stream.write_all(b"data that is never read").await.unwrap(),
                    1 => stream.shutdown().await.unwrap(),
                    _ => {}
                }
                streams.push(stream);
            }
            assert!(connections_of(kind, world) >= 60);
            assert_eq!(world.stats().await.processes, processes);
            drop(streams);
            assert_eq!(pipes(), before);
            World::wait_for("the box to let go", async || {
                connections_of(kind, world) == 0
            })
            .await;
        }
        assert_eq!(world.stats().await.processes, processes);
    });
}

pub(crate) fn server_writing_to_dropped_connection_gets_an_error(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "accept(my $peer, $server); 1 while syswrite($peer, 'on and on')";
        let server = Server::start(world, script, ["4", "0", ""]).await.unwrap();
        let mut stream = connect(world, server.port).await;
        stream.shutdown().await.unwrap();
        let mut received = vec![0; 1 << 20];
        stream.read_exact(&mut received).await.unwrap();
        drop(stream);
        // By a signal, or because it cannot write any more.
        let status = Ended::of(server.command).await.status;
        assert!(
            status.signal == Some(Signal::PIPE.as_raw()) || status.code == Some(0),
            "{status:?}"
        );
    });
}

#[test]
fn same_port_in_two_native_boxes_reaches_each_server() {
    same_port_in_two_boxes_reaches_each_server(RuntimeKind::Native);
}

#[test]
fn same_port_in_two_gvisor_boxes_reaches_each_server() {
    same_port_in_two_boxes_reaches_each_server(RuntimeKind::Gvisor);
}
