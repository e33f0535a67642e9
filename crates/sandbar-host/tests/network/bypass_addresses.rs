//! Ways out by address: directly, in disguise, or with sockets of another kind.

use sandbar_testing::internet::{ATTACKER, ATTACKER_V6, ECHO, HOST, INTRANET, METADATA, WEB};

use crate::world::World;

const NAMED: &str = "allow=allowed.example";

/// As HTTP asks.
const REQUEST: &str = r"GET / HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n\r\n";

pub(crate) async fn plain_address_is_refused(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .is_refused(&id, &["echo", ATTACKER, "9000", "hello"])
        .await;
    world.was_decided(&id, "deny", ATTACKER, "").await;
    world.is_refused(&id, &["echo", WEB, "9000", "hello"]).await;
    world.no_server_was_reached();
}

pub(crate) async fn plain_ipv6_address_is_refused(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .is_refused(&id, &["echo", ATTACKER_V6, "9000", "hello"])
        .await;
    world
        .was_decided(&id, "deny", &format!("[{ATTACKER_V6}]"), "")
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn denied_server_that_speaks_first_is_refused(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .is_refused(&id, &["speaks_first", ATTACKER, "22"])
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn tcp_fast_open_data_is_not_sent(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .is_refused(&id, &["fast_open", ATTACKER, "9000", r"exfiltrated\n"])
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn ipv4_mapped_address_is_treated_as_ipv4(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    world
        .reaches(
            &id,
            &["mapped", &format!("::ffff:{ECHO}"), "9000", r"hello\n"],
            "hello",
        )
        .await;
    for address in [INTRANET, METADATA, HOST, "127.0.0.1"] {
        let port = if address == METADATA { "80" } else { "9000" };
        world
            .is_refused(
                &id,
                &["mapped", &format!("::ffff:{address}"), port, r"hello\n"],
            )
            .await;
    }
    world.no_server_was_reached();
}

pub(crate) async fn nat64_and_6to4_addresses_are_decoded(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    for address in [
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::a42:a",
        "2002:a9fe:a9fe::1",
        "::a9fe:a9fe",
    ] {
        world
            .is_refused(&id, &["mapped", address, "80", r"hello\n"])
            .await;
        world
            .was_decided(&id, "deny", &format!("[{address}]"), "not open unless")
            .await;
    }
    world.no_server_was_reached();
    let of_another_kind = |packet: &sandbar_testing::internet::Packet| packet.to.port() == 80;
    assert!(!world.internet.packets().iter().any(of_another_kind));
}

pub(crate) async fn metadata_service_is_refused(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    for port in ["80", "443", "9000"] {
        world
            .is_refused(&id, &["echo", METADATA, port, "hello"])
            .await;
    }
    // An HTTP client receives the reason.
    world
        .reaches(&id, &["say", METADATA, "80", REQUEST], "403 ")
        .await;
    world.was_decided(&id, "deny", METADATA, "metadata").await;
    world
        .is_refused(&id, &["echo", "fd00:ec2::254", "80", "hello"])
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn private_networks_are_refused(world: &mut World<'_>) {
    let id = world.session("s", "allow=0.0.0.0/0,::/0").await;
    world
        .reaches(&id, &["echo", ECHO, "9000", "hello"], "hello")
        .await;
    for address in [
        INTRANET,
        "10.66.200.1",
        "192.168.0.1",
        "172.16.0.1",
        "100.64.0.1",
        "169.254.1.1",
        "fd00:65::1",
    ] {
        world
            .is_refused(&id, &["echo", address, "9000", "hello"])
            .await;
    }
    world.no_server_was_reached();
}

pub(crate) async fn host_loopback_is_unreachable(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    for address in ["127.0.0.1", "::1", "localhost", "0.0.0.0", "127.8.8.8"] {
        for port in ["9000", "8080"] {
            world
                .is_refused(&id, &["echo", address, port, "hello"])
                .await;
        }
    }
    world
        .is_refused(&id, &["udp", "127.0.0.1", "9001", "hello"])
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn public_address_of_the_host_is_refused(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    world
        .is_refused(&id, &["echo", HOST, "9000", "hello"])
        .await;
    world
        .was_decided(&id, "deny", HOST, "the host itself")
        .await;
    world.is_refused(&id, &["tls", HOST, "443", ""]).await;
    world
        .is_refused(&id, &["echo", "2001:db8:200::200", "9000", "hello"])
        .await;
    world
        .is_refused(&id, &["echo", "10.65.0.2", "9000", "hello"])
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn gateway_address_serves_only_dns_and_proxy(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    for port in ["1", "22", "80", "443", "8080", "9000"] {
        world
            .is_refused(&id, &["echo", "192.0.0.1", port, "hello"])
            .await;
    }
    world
        .is_refused(&id, &["udp", "192.0.0.1", "9001", "hello"])
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn udp_is_closed_to_allowed_hosts(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    world.is_refused(&id, &["udp", ECHO, "9001", "hello"]).await;
    world
        .is_refused(&id, &["udp", WEB, "443", "as QUIC does"])
        .await;
    world
        .is_refused(&id, &["udp", ATTACKER_V6, "9001", "hello"])
        .await;
    assert!(
        !world
            .internet
            .packets()
            .iter()
            .any(|packet| packet.protocol == 17 && packet.to.port() != 53)
    );
    world.no_server_was_reached();
}

pub(crate) async fn udp_port_is_open_at_its_address_only(world: &mut World<'_>) {
    let id = world
        .session("s", &format!("allow=udp://{ECHO}:9001"))
        .await;
    world
        .reaches(&id, &["udp", ECHO, "9001", "hello"], "hello")
        .await;
    world
        .is_refused(&id, &["unanswered_udp", ATTACKER, "9001", "hello"])
        .await;
    world.was_decided(&id, "deny", ATTACKER, "").await;
    world.is_refused(&id, &["udp", ECHO, "9002", "hello"]).await;
    world.no_server_was_reached();
}

pub(crate) async fn broadcast_and_multicast_are_dropped(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    for address in ["255.255.255.255", "224.0.0.251", "203.0.113.255"] {
        world.is_refused(&id, &["broadcast", address, "9001"]).await;
    }
    assert!(
        !world
            .internet
            .packets()
            .iter()
            .any(|packet| packet.protocol == 17 && packet.to.port() != 53)
    );
    world.no_server_was_reached();
}

pub(crate) async fn icmp_echo_is_dropped(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    for kind in ["SOCK_RAW", "SOCK_DGRAM"] {
        let line = world.guest(&id, &["icmp", ATTACKER, kind]).await;
        assert!(
            line.starts_with("refused: ") || !world.internet.was_reached(ATTACKER),
            "{line}"
        );
    }
    assert!(
        !world
            .internet
            .packets()
            .iter()
            .any(|packet| packet.protocol == 1)
    );
    world.no_server_was_reached();
}

pub(crate) async fn raw_ip_packets_are_refused(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    world
        .is_refused(&id, &["raw_packet", ATTACKER, "9001"])
        .await;
    world.is_refused(&id, &["raw_packet", METADATA, "80"]).await;
    world.no_server_was_reached();
}

pub(crate) async fn packet_sockets_are_refused(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    world.is_refused(&id, &["frame", "lo"]).await;
    world.no_server_was_reached();
}

pub(crate) async fn other_ip_protocols_are_refused(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    // SCTP, GRE, and one for experiments.
    for number in ["132", "47", "253"] {
        let line = world
            .guest(&id, &["other_protocol", ATTACKER, number])
            .await;
        assert!(line.starts_with("refused: "), "{line}");
    }
    world.no_server_was_reached();
}

pub(crate) async fn spoofed_source_address_is_refused(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for source in ["192.0.0.1", HOST, "127.0.0.1"] {
        world
            .is_refused(&id, &["with_forged_source", source, ATTACKER, "9000"])
            .await;
    }
    world.no_server_was_reached();
}

pub(crate) async fn socket_marks_and_interfaces_are_refused(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    world
        .is_refused(&id, &["with_mark", ATTACKER, "9000"])
        .await;
    for interface in ["lo", "wire"] {
        world
            .is_refused(&id, &["at_interface", interface, ATTACKER, "9000"])
            .await;
    }
    world.no_server_was_reached();
}
