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

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Listens on the loopback at the port it is given, or at a free one, and tells which.
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

/// Sends back what it gets, to everybody at once, after a word of greeting.
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
    /// Ends when it is dropped.
    command: RunningCommand,
}

impl Server {
    /// Port 0 is any that is free. `None` when it cannot listen there.
    async fn start(test_box: &TestBox, script: &str, arguments: [&str; 3]) -> Option<Self> {
        let script = format!("{LISTEN}{script}");
        let argv = ["perl", "-e", &script].into_iter().chain(arguments);
        let mut command = test_box.start(ExecSpec::new(argv)).await.unwrap();
        let Some(ExecEvent::Stdout(told)) = command.next_event().await else { panic!("the server tells its port") };
        let port = std::str::from_utf8(&told).unwrap().trim().parse().unwrap();
        (port > 0).then_some(Self { port, command })
    }

    pub(crate) async fn echo(test_box: &TestBox) -> Self {
        Self::start(test_box, ECHO, ["4", "0", ""]).await.unwrap()
    }
}

pub(crate) async fn connect(test_box: &TestBox, port: u16) -> DialedStream {
    test_box.dial(port, PATIENCE).await.unwrap().into_stream().unwrap()
}

/// Says something and hears it.
pub(crate) async fn talk(stream: &mut DialedStream, word: &str) {
    stream.write_all(word.as_bytes()).await.unwrap();
    let mut heard = vec![0; word.len()];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard, word.as_bytes());
}

pub(crate) async fn read_all(stream: &mut DialedStream) -> Vec<u8> {
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).await.unwrap();
    heard
}

async fn refusal(test_box: &TestBox, port: u16, patience: Duration) -> ErrorCode {
    test_box.dial(port, patience).await.unwrap_err().code()
}

pub(crate) fn a_server_in_the_box_is_reached_and_every_byte_passes_both_ways(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let server = Server::echo(world).await;
        let mut stream = connect(world, server.port).await;
        talk(&mut stream, "hello").await;
        let sent: Vec<u8> = (0..10_000_000_u32).map(|number| (number % 251).to_le_bytes()[0]).collect();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let expected = sent.clone();
        let writing = tokio::spawn(async move {
            writer.write_all(&sent).await.unwrap();
            // The server hears the end, and what it still has to say arrives.
            writer.shutdown().await.unwrap();
            assert!(writer.write_all(b"more").await.is_err());
        });
        let mut heard = Vec::new();
        reader.read_to_end(&mut heard).await.unwrap();
        writing.await.unwrap();
        assert!(heard == expected);
    });
}

pub(crate) fn nobody_listening_is_told(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let server = Server::echo(world).await;
        let port = server.port;
        drop(server);
        World::wait_for("the server to end", async || world.dial(port, PATIENCE).await.is_err()).await;
        let error = world.dial(port, PATIENCE).await.unwrap_err();
        assert_eq!((error.code(), error.field()), (ErrorCode::Unavailable, Some("port")));
        assert!(error.message().contains(&port.to_string()) && error.hint().is_some());
        assert_eq!(refusal(world, 0, PATIENCE).await, ErrorCode::InvalidArgument);
        // A port the kernel gives to those who connect, asked for often: nobody is connected with himself.
        for _ in 0..200 {
            assert_eq!(refusal(world, port, PATIENCE).await, ErrorCode::Unavailable);
        }
    });
}

pub(crate) fn two_boxes_listen_on_the_same_port_and_are_told_apart(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let other = world.open_box("two", &Resources::default());
        let one = Server::start(world, ECHO, ["4", "8081", "this is one"]).await.unwrap();
        let two = Server::start(&other, ECHO, ["4", "8081", "this is two"]).await.unwrap();
        for _ in 0..3 {
            for (test_box, server, greeting) in [(&**world, &one, "this is one"), (&other, &two, "this is two")] {
                let mut stream = connect(test_box, server.port).await;
                stream.shutdown().await.unwrap();
                assert_eq!(read_all(&mut stream).await, greeting.as_bytes());
            }
        }
        drop(one);
        World::wait_for("the first to end", async || world.dial(8081, PATIENCE).await.is_err()).await;
        connect(&other, 8081).await;
        other.stop().await;
    });
}

pub(crate) fn fifty_connections_stand_at_once_and_do_not_mix(kind: RuntimeKind) {
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

pub(crate) fn a_server_on_the_newer_loopback_is_reached(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // Where the kernel has no IPv6 there is nothing to reach.
        let Some(server) = Server::start(world, ECHO, ["6", "0", ""]).await else { return };
        talk(&mut connect(world, server.port).await, "hello").await;
    });
}

pub(crate) fn what_the_server_ends_is_at_its_end(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = r#"accept(my $peer, $server); syswrite($peer, "farewell"); close $peer; sleep 5656"#;
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

pub(crate) fn a_server_that_does_not_read_holds_nobody_up(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let deaf = Server::start(world, "accept(my $peer, $server); sleep 5656", ["4", "0", ""]).await.unwrap();
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

pub(crate) fn a_frozen_box_is_given_up_and_works_again_once_it_is_thawed(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // Tells how many have come.
        let script = "while (accept(my $peer, $server)) { syswrite($peer, ++$count); close $peer }";
        let server = Server::start(world, script, ["4", "0", ""]).await.unwrap();
        let mut before = connect(world, server.port).await;
        assert_eq!(read_all(&mut before).await, b"1");
        world.freeze().await;
        for _ in 0..3 {
            assert_eq!(refusal(world, server.port, Duration::from_millis(50)).await, ErrorCode::Timeout);
        }
        // Who has the patience is answered.
        let (test_box, port) = (TestBox::clone(world), server.port);
        let waiting = tokio::spawn(async move { read_all(&mut connect(&test_box, port).await).await });
        world.thaw().await;
        assert_eq!(waiting.await.unwrap(), b"2", "those who gave up never came");
        assert_eq!(read_all(&mut connect(world, server.port).await).await, b"3");
        assert_eq!(world.finish(ExecSpec::new(["echo", "here"])).await.stdout, "here\n");
    });
}

pub(crate) fn a_frozen_box_is_asked_no_more_often_than_it_can_hear(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let server = Server::echo(world).await;
        world.freeze().await;
        for _ in 0..100 {
            assert_eq!(refusal(world, server.port, Duration::from_millis(1)).await, ErrorCode::Timeout);
        }
        world.thaw().await;
        talk(&mut connect(world, server.port).await, "hello").await;
    });
}

pub(crate) fn stopping_the_box_ends_its_connections(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let test_box = world.open_box("two", &Resources::default());
        let server = Server::echo(&test_box).await;
        let mut streams = [connect(&test_box, server.port).await, connect(&test_box, server.port).await];
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

pub(crate) fn a_box_that_died_or_was_stopped_is_told(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let test_box = world.open_box("two", &Resources::default());
        let server = Server::echo(&test_box).await;
        let mut stream = connect(&test_box, server.port).await;
        for pid in test_box.init_on_host() {
            kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
        }
        assert!(read_all(&mut stream).await.is_empty());
        World::wait_for("the box to be gone", async || !test_box.is_alive()).await;
        let error = test_box.dial(server.port, PATIENCE).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable);
        test_box.stop().await;
        assert_eq!(refusal(&test_box, server.port, PATIENCE).await, ErrorCode::InvalidState);
    });
}

/// How many descriptors of a process lead to something that contains one of these.
fn descriptors(process: &str, wanted: &[&str]) -> usize {
    // It may end while we look.
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| wanted.iter().any(|part| target.to_string_lossy().contains(part))).count()
}

/// Whether this is the kernel of a container.
fn is_kernel(process: &str) -> bool {
    std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| line.starts_with(b"runsc-sandbox"))
}

/// How many connections the box holds.
fn connections_of(kind: RuntimeKind, test_box: &TestBox) -> usize {
    let init = test_box.init_on_host().into_iter().map(|pid| pid.to_string());
    match kind {
        // The kernel in user space holds a named pipe for each. Its gofer remembers names that are gone, up to a limit.
        RuntimeKind::Gvisor => init.filter(|pid| is_kernel(pid)).map(|pid| descriptors(&pid, &["/live"])).sum(),
        // Beside the two sockets to the host.
        RuntimeKind::Native | RuntimeKind::None => init.map(|pid| descriptors(&pid, &["socket:"])).sum::<usize>() - 2,
    }
}

pub(crate) fn connections_that_are_dropped_leave_nothing(kind: RuntimeKind) {
    World::run(kind, async |world| {
        // It neither reads nor says anything: only we can end it.
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
                    0 => stream.write_all(b"something nobody reads").await.unwrap(),
                    1 => stream.shutdown().await.unwrap(),
                    _ => {}
                }
                streams.push(stream);
            }
            assert!(connections_of(kind, world) >= 60);
            assert_eq!(world.stats().await.processes, processes);
            drop(streams);
            assert_eq!(pipes(), before);
            World::wait_for("the box to let go", async || connections_of(kind, world) == 0).await;
        }
        assert_eq!(world.stats().await.processes, processes);
    });
}

pub(crate) fn a_server_that_talks_on_is_told_that_nobody_listens(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "accept(my $peer, $server); 1 while syswrite($peer, 'on and on')";
        let server = Server::start(world, script, ["4", "0", ""]).await.unwrap();
        let mut stream = connect(world, server.port).await;
        stream.shutdown().await.unwrap();
        let mut heard = vec![0; 1 << 20];
        stream.read_exact(&mut heard).await.unwrap();
        drop(stream);
        // By a signal, or because it cannot write any more.
        let status = Ended::of(server.command).await.status;
        assert!(status.signal == Some(Signal::PIPE.as_raw()) || status.code == Some(0), "{status:?}");
    });
}

#[test]
fn two_native_boxes_listen_on_the_same_port_and_are_told_apart() {
    two_boxes_listen_on_the_same_port_and_are_told_apart(RuntimeKind::Native);
}

#[test]
fn two_gvisor_boxes_listen_on_the_same_port_and_are_told_apart() {
    two_boxes_listen_on_the_same_port_and_are_told_apart(RuntimeKind::Gvisor);
}
