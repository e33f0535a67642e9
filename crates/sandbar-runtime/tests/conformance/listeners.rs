//! Networks of boxes, and the netns listeners of the host.

use std::{fs, net::SocketAddr, os::fd::AsFd, path::Path};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbar_core::{ErrorCode, RuntimeKind};
use sandbar_netns::{NetnsListeners, UdpListener};
use sandbar_runtime::{ExecEvent, ExecSpec, Trust};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    dial::{Server, connect, talk},
    test_box::{Ended, TestBox},
    world::{World, shell},
};

/// Connects, writes a word, and prints the answer or the error.
const CONNECT: &str = r#"
    use Socket; my ($host, $port) = @ARGV; $| = 1;
    socket(my $socket, PF_INET, SOCK_STREAM, 0) or die;
    connect($socket, sockaddr_in($port, inet_aton($host))) or do { print "$!\n"; exit 1 };
    syswrite($socket, "hello") // print "write: $!\n"; my $n; while ($n = sysread($socket, my $text, 100)) { print $text } defined $n or print "read: $!\n";
"#;

/// Sends a datagram and prints the answer or the error.
const ASK: &str = r#"
    use Socket; my ($host, $port) = @ARGV; $| = 1;
    socket(my $socket, PF_INET, SOCK_DGRAM, 0) or die;
    connect($socket, sockaddr_in($port, inet_aton($host))) or do { print "$!\n"; exit 1 };
    defined send($socket, "to $host", 0) or do { print "$!\n"; exit 1 };
    defined recv($socket, my $text, 100, 0) or do { print "$!\n"; exit 1 };
    print $text;
"#;

fn perl<'a>(script: &'a str, arguments: impl IntoIterator<Item = &'a str>) -> ExecSpec {
    ExecSpec::new(["perl", "-e", script].into_iter().chain(arguments))
}

/// Opens a box with netns listeners.
async fn open_egress_box(
    world: &World,
    session: &str,
    udp_ports: &'static [u16],
) -> (TestBox, NetnsListeners) {
    let test_box = world.open_egress_box(session);
    let listeners = test_box.open_listeners(udp_ports).await.unwrap();
    (test_box, listeners)
}

/// Accepts the next connection, answers it with `word` and returns its original destination.
async fn answer(listeners: &NetnsListeners, word: &str) -> SocketAddr {
    let listener =
        tokio::net::TcpListener::from_std(listeners.tcp[0].try_clone().unwrap()).unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut received = [0; 5];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"hello");
    stream.write_all(word.as_bytes()).await.unwrap();
    stream.local_addr().unwrap()
}

/// Receives the next datagram and answers it from the listener itself.
async fn answer_datagram(listener: &UdpListener, word: &str) -> String {
    let socket = tokio::net::UdpSocket::from_std(listener.socket.try_clone().unwrap()).unwrap();
    let mut received = [0; 100];
    let (length, from) = socket.recv_from(&mut received).await.unwrap();
    socket.send_to(word.as_bytes(), from).await.unwrap();
    String::from_utf8(received[..length].to_vec()).unwrap()
}

async fn reaches(
    test_box: &TestBox,
    listeners: &NetnsListeners,
    to: [&str; 2],
    word: &str,
) -> SocketAddr {
    let running = test_box.start(perl(CONNECT, to)).await.unwrap();
    let meant_for = answer(listeners, word).await;
    assert_eq!(Ended::of(running).await.stdout, word);
    meant_for
}

fn is_quiet(socket: impl AsFd) -> bool {
    poll(
        &mut [PollFd::new(&socket, PollFlags::IN)],
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )
    .unwrap()
        == 0
}

/// Opens listeners on more ports than descriptors fit into one message, and uses them.
pub(crate) async fn assert_listeners_work(test_box: &TestBox) {
    let listeners = test_box
        .open_listeners(&[123, 124, 125, 126, 127, 128, 129, 130, 131, 132])
        .await
        .unwrap();
    reaches(test_box, &listeners, ["203.0.113.7", "443"], "a word").await;
    let last = listeners
        .udp
        .iter()
        .rev()
        .find(|listeners| listeners.socket.local_addr().unwrap().is_ipv4())
        .unwrap();
    assert_eq!(last.port, 132);
    let running = test_box
        .start(perl(ASK, ["192.0.0.1", "132"]))
        .await
        .unwrap();
    assert_eq!(answer_datagram(last, "a word").await, "to 192.0.0.1");
    assert_eq!(Ended::of(running).await.stdout, "a word");
    drop(listeners.udp);
    let fresh = test_box.reopen_udp(&[133]).await.unwrap();
    let running = test_box
        .start(perl(ASK, ["192.0.0.1", "133"]))
        .await
        .unwrap();
    assert_eq!(answer_datagram(&fresh[0], "another").await, "to 192.0.0.1");
    assert_eq!(Ended::of(running).await.stdout, "another");
}

pub(crate) fn connections_to_any_address_reach_the_listeners(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let (test_box, listeners) = open_egress_box(world, "two", &[]).await;
        for [host, port] in [
            ["203.0.113.7", "443"],
            ["10.1.2.3", "22"],
            ["192.0.0.1", "3128"],
            ["8.8.8.8", "53"],
        ] {
            let meant_for = reaches(&test_box, &listeners, [host, port], "from anywhere").await;
            assert_eq!(meant_for.to_string(), format!("{host}:{port}"));
        }
        test_box.stop().await;
    });
}

pub(crate) fn datagrams_and_dns_reach_the_listeners(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let (test_box, listeners) = open_egress_box(world, "two", &[123]).await;
        for (sockets, port) in [(&listeners.dns, "53"), (&listeners.udp, "123")] {
            let running = test_box
                .start(perl(ASK, ["192.0.0.1", port]))
                .await
                .unwrap();
            assert_eq!(answer_datagram(&sockets[0], "a word").await, "to 192.0.0.1");
            assert_eq!(Ended::of(running).await.stdout, "a word");
        }
        // Whatever a list of name servers says.
        for host in ["8.8.8.8", "127.0.0.53", "127.0.0.1"] {
            let running = test_box.start(perl(ASK, [host, "53"])).await.unwrap();
            assert_eq!(
                answer_datagram(&listeners.dns[0], "not from there").await,
                format!("to {host}")
            );
            drop(running);
        }
        if kind == RuntimeKind::Native {
            // gVisor's network stack does not report the rejection to the sender.
            let refused = test_box.finish(perl(ASK, ["198.51.100.1", "124"])).await;
            assert_eq!(refused.stdout, "Connection refused\n");
        }
        test_box.stop().await;
    });
}

/// Sends two length-prefixed messages, as DNS over TCP does, and prints the answers.
const ASK_AT_LENGTH: &str = r#"
    use Socket; my ($host) = @ARGV; $| = 1;
    socket(my $socket, PF_INET, SOCK_STREAM, 0) or die;
    connect($socket, sockaddr_in(53, inet_aton($host))) or do { print "$!\n"; exit 1 };
    for (1, 2) { syswrite($socket, "\0\5hello"); sysread($socket, my $text, 100); print substr($text, 2) }
"#;

pub(crate) fn dns_over_tcp_to_loopback_reaches_the_listeners(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let (test_box, listeners) = open_egress_box(world, "two", &[]).await;
        let listener =
            tokio::net::TcpListener::from_std(listeners.tcp[0].try_clone().unwrap()).unwrap();
        for host in ["127.0.0.1", "127.0.0.53"] {
            let running = test_box.start(perl(ASK_AT_LENGTH, [host])).await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            assert_eq!(stream.local_addr().unwrap().port(), 53);
            for _ in 0..2 {
                let mut received = [0; 7];
                stream.read_exact(&mut received).await.unwrap();
                assert_eq!(&received, b"\0\x05hello");
                stream.write_all(b"\0\x04word").await.unwrap();
            }
            assert_eq!(Ended::of(running).await.stdout, "wordword");
        }
        // The forwarder is not a process of the session.
        let stats = test_box.stats().await;
        assert_eq!(stats.processes, Some(0));
        test_box.stop().await;
    });
}

/// Errors of Linux and of gVisor.
const UNREACHABLE: [&str; 2] = ["Network is unreachable\n", "No route to host\n"];

pub(crate) fn closed_box_reaches_nothing(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let ended = world.finish(perl(CONNECT, ["203.0.113.7", "443"])).await;
        assert!(UNREACHABLE.contains(&ended.stdout.as_str()), "{ended:?}");
        let ended = world.finish(perl(ASK, ["8.8.8.8", "53"])).await;
        assert!(UNREACHABLE.contains(&ended.stdout.as_str()), "{ended:?}");
    });
}

pub(crate) fn loopback_with_egress_stays_private_and_is_dialed(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let (test_box, listeners) = open_egress_box(world, "two", &[]).await;
        let server = Server::echo(&test_box).await;
        talk(&mut connect(&test_box, server.port).await, "hello").await;
        let port = server.port.to_string();
        let script = format!("{CONNECT} # only the first word\n");
        let mut running = test_box
            .start(perl(&script, ["127.0.0.1", &port]))
            .await
            .unwrap();
        let Some(ExecEvent::Stdout(received)) = running.next_event().await else {
            panic!("an echo")
        };
        assert_eq!(&received[..], b"hello");
        assert!(
            listeners.tcp.iter().all(is_quiet)
                && listeners
                    .dns
                    .iter()
                    .all(|listener| is_quiet(&listener.socket))
        );
        let refused = test_box.finish(perl(CONNECT, ["127.0.0.1", "1"])).await;
        assert_eq!(refused.stdout, "Connection refused\n");
        drop((running, server));
        test_box.stop().await;
    });
}

pub(crate) fn two_boxes_have_separate_listeners(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let (one, listeners_of_one) = open_egress_box(world, "two", &[]).await;
        let (other, listeners_of_other) = open_egress_box(world, "three", &[]).await;
        reaches(&one, &listeners_of_one, ["203.0.113.7", "443"], "one").await;
        reaches(&other, &listeners_of_other, ["203.0.113.7", "443"], "other").await;
        // A box does not reach the ports of another: its own listeners accept the connection.
        let server = Server::echo(&one).await;
        let port = server.port.to_string();
        let meant_for = reaches(
            &other,
            &listeners_of_other,
            ["192.0.0.1", &port],
            "own listeners",
        )
        .await;
        assert_eq!(meant_for.port(), server.port);
        assert!(is_quiet(&listeners_of_one.tcp[0]));
        drop(server);
        one.stop().await;
        reaches(&other, &listeners_of_other, ["203.0.113.7", "443"], "still").await;
        other.stop().await;
    });
}

pub(crate) fn box_without_listeners_is_refused_until_reopened(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let (test_box, listeners) = open_egress_box(world, "two", &[]).await;
        reaches(&test_box, &listeners, ["203.0.113.7", "443"], "first").await;
        drop(listeners);
        let ended = test_box.finish(perl(CONNECT, ["203.0.113.7", "443"])).await;
        assert_eq!(ended.stdout, "Connection refused\n");
        let again = test_box.open_listeners(&[]).await.unwrap();
        reaches(&test_box, &again, ["203.0.113.7", "443"], "second").await;
        test_box.stop().await;
        let error = test_box.open_listeners(&[]).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
    });
}

pub(crate) fn udp_ports_change_while_listeners_stay_open(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let (test_box, listeners) = open_egress_box(world, "two", &[123]).await;
        let fresh = test_box.reopen_udp(&[123, 4433]).await.unwrap();
        drop(listeners.udp);
        for (port, number) in [("123", 123), ("4433", 4433)] {
            let running = test_box
                .start(perl(ASK, ["192.0.0.1", port]))
                .await
                .unwrap();
            let at_port = fresh
                .iter()
                .find(|listeners| listeners.port == number)
                .unwrap();
            assert_eq!(answer_datagram(at_port, "a word").await, "to 192.0.0.1");
            assert_eq!(Ended::of(running).await.stdout, "a word");
        }
        test_box.stop().await;
    });
}

/// Sets `IP_TRANSPARENT` and `SO_MARK`, which only the host's listeners may set.
const PRETEND: &str = r#"
    use Socket;
    socket(my $socket, PF_INET, SOCK_DGRAM, 0) or die;
    for my $option ([0, 19], [1, 36]) {
        print setsockopt($socket, $option->[0], $option->[1], 1) ? "set\n" : "$!\n";
    }
    print socket(my $raw, PF_INET, SOCK_RAW, 1) ? "raw\n" : "no\n";
"#;

pub(crate) fn box_cannot_change_its_network(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let (test_box, listeners) = open_egress_box(world, "two", &[]).await;
        for attempt in [
            "ip link set lo down",
            "ip addr del 192.0.0.2/32 dev lo",
            "ip route del local default dev lo",
            "ip link add eth7 type veth",
            "nft flush ruleset",
            "nft list ruleset | grep -q sandbar",
        ] {
            let ended = test_box.finish(shell(attempt)).await;
            assert_ne!(ended.status.code, Some(0), "{attempt}: {ended:?}");
        }
        let ended = test_box.finish(perl(PRETEND, [])).await;
        assert!(!ended.stdout.contains("raw"), "{}", ended.stdout);
        // What the kernel in user space takes is for its own network stack.
        assert!(
            kind == RuntimeKind::Gvisor || !ended.stdout.contains("set"),
            "{}",
            ended.stdout
        );
        reaches(&test_box, &listeners, ["203.0.113.7", "443"], "as before").await;
        test_box.stop().await;
    });
}

/// Counts the processes in a network namespace and the descriptors of this process that refer to
/// it.
fn holders(network: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let inside = processes
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .iter()
                .all(u8::is_ascii_digit)
        })
        .filter(|entry| {
            fs::read_link(entry.path().join("ns/net")).is_ok_and(|link| link == network)
        });
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|link| link == network));
    inside.count() + open.count()
}

pub(crate) fn stopped_box_leaves_no_network(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let (test_box, listeners) = open_egress_box(world, "two", &[123]).await;
        let network_of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let mut networks: Vec<_> = test_box
            .on_host()
            .into_iter()
            .filter_map(|pid| network_of(&pid.to_string()))
            .collect();
        networks.retain(|network| network_of("self").as_ref() != Some(network));
        assert!(
            networks.iter().any(|network| holders(network) >= 2),
            "the box and a descriptor of its network"
        );
        reaches(&test_box, &listeners, ["203.0.113.7", "443"], "once").await;
        drop(listeners);
        test_box.stop().await;
        World::wait_for("the network to be gone", async || {
            networks.iter().all(|network| holders(network) == 0)
        })
        .await;
    });
}

#[test]
fn a_native_box_is_opened_while_it_runs() {
    World::run(RuntimeKind::Native, async |world| {
        let closed = world.finish(perl(CONNECT, ["203.0.113.7", "443"])).await;
        assert_eq!(closed.stdout, "Network is unreachable\n");
        let server = Server::echo(world).await;
        let mut stream = connect(world, server.port).await;
        talk(&mut stream, "before").await;
        let listeners = world.open_listeners(&[]).await.unwrap();
        reaches(world, &listeners, ["203.0.113.7", "443"], "opened").await;
        talk(&mut stream, "after").await;
        // One that was prepared, and one that was not.
        for session in ["two", "three", "four", "five"] {
            let (test_box, listeners) = open_egress_box(world, session, &[]).await;
            reaches(&test_box, &listeners, ["203.0.113.7", "443"], session).await;
            test_box.stop().await;
        }
        drop(server);
    });
}

/// Owners and permissions.
const LIST: &str = r#"for (@ARGV) { my @about = stat; printf "%d %d %o %s\n", @about[4, 5], $about[2] & 07777, $_ }"#;

fn trust() -> Trust {
    // As long as a real one, so that it does not fit into one write.
    let bundle = format!("all of them\n{}", "a certificate\n".repeat(20_000));
    Trust {
        authority: "the authority\n".into(),
        bundle,
    }
}

pub(crate) fn certificates_are_mounted_in_dev_and_over_tree_bundles(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let trust = trust();
        let own = "etc/ssl/certs/ca-certificates.crt";
        let test_box = world.open_egress_box_with("two", Some(&trust), |tree| {
            fs::create_dir_all(tree.on_disk().join("etc/ssl/certs")).unwrap();
            fs::write(tree.on_disk().join(own), "the tree's own\n").unwrap();
        });
        let shown = |place: &str| shell(&format!("cat {place}"));
        assert_eq!(
            test_box
                .finish(shown("/dev/sandbar/authority.crt"))
                .await
                .stdout,
            trust.authority
        );
        assert_eq!(
            test_box
                .finish(shown("/dev/sandbar/ca-certificates.crt"))
                .await
                .stdout,
            trust.bundle
        );
        assert_eq!(
            test_box
                .finish(shown("/etc/ssl/certs/ca-certificates.crt"))
                .await
                .stdout,
            trust.bundle
        );
        let listed = test_box
            .finish(shell(&format!("cd /dev/sandbar; perl -e '{LIST}' . *")))
            .await
            .stdout;
        // gVisor has no read-only bind mounts here, so the files belong to the uid `nobody`.
        let owner = if kind == RuntimeKind::Native {
            "0 0"
        } else {
            "65534 65534"
        };
        let expected = [
            ("755", "."),
            ("444", "authority.crt"),
            ("444", "ca-certificates.crt"),
        ];
        assert_eq!(
            listed,
            expected
                .map(|(mode, name)| format!("{owner} {mode} {name}\n"))
                .concat()
        );
        for attempt in [
            "echo mine > /dev/sandbar/authority.crt",
            "chmod 644 /dev/sandbar/authority.crt",
            "rm -f /dev/sandbar/authority.crt",
            "touch /dev/sandbar/new",
            "echo mine >> /etc/ssl/certs/ca-certificates.crt",
            "rm -f /etc/ssl/certs/ca-certificates.crt",
        ] {
            let ended = test_box.finish(shell(attempt)).await;
            assert_ne!(ended.status.code, Some(0), "{attempt}: {ended:?}");
        }
        // The tree has what it had.
        assert_eq!(
            fs::read_to_string(test_box.path_inside(own)).unwrap(),
            "the tree's own\n"
        );
        assert!(!test_box.path_inside("dev/sandbar").exists());
        test_box.stop().await;
        assert_eq!(
            fs::read_to_string(test_box.path_inside(own)).unwrap(),
            "the tree's own\n"
        );
        let without = world.finish(shell("cat /dev/sandbar/*")).await;
        assert_ne!(without.status.code, Some(0), "{without:?}");
    });
}

pub(crate) fn tree_with_symlinks_cannot_redirect_certificates(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let test_box = world.open_egress_box_with("two", Some(&trust()), |tree| {
            let root = tree.on_disk();
            fs::create_dir_all(root.join("etc/pki/tls/certs/ca-bundle.crt")).unwrap();
            fs::create_dir_all(root.join("elsewhere/certs")).unwrap();
            fs::write(root.join("elsewhere/certs/ca-certificates.crt"), "own\n").unwrap();
            fs::write(root.join("elsewhere/cert.pem"), "own\n").unwrap();
            std::os::unix::fs::symlink("../elsewhere", root.join("etc/ssl")).unwrap();
        });
        let ended = test_box
            .finish(shell(
                "cat /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem",
            ))
            .await;
        assert_eq!(ended.stdout, "own\nown\n");
        let ended = test_box
            .finish(shell("cat /dev/sandbar/authority.crt"))
            .await;
        assert_eq!(ended.stdout, trust().authority);
        test_box.stop().await;
    });
}

#[test]
fn gvisor_box_with_network_cannot_change_it_or_checkpoint() {
    World::run(RuntimeKind::Gvisor, async |world| {
        let error = world.open_listeners(&[]).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        assert!(
            error.message().contains("started without a network") && error.hint().is_some(),
            "{error}"
        );
        let (test_box, listeners) = open_egress_box(world, "two", &[]).await;
        let image = std::env::temp_dir().join(format!("{}-image", world.name()));
        let error = test_box
            .checkpoint(&image, || panic!("nothing is to be copied"))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidState);
        assert!(
            error.message().contains("while it has a network") && error.hint().is_some(),
            "{error}"
        );
        assert!(!image.exists());
        reaches(&test_box, &listeners, ["203.0.113.7", "443"], "unharmed").await;
        test_box.stop().await;
    });
}
