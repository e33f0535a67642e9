//! Ways out by changing the network from inside, and to those beside.

use sandbar_core::SessionId;
use sandbar_testing::internet::{ATTACKER, DNS, METADATA, WEB};

use crate::world::World;

const NAMED: &str = "allow=allowed.example";

/// After whatever was done, the same is open and closed as before.
async fn nothing_changed(world: &World<'_>, id: &SessionId) {
    world
        .is_refused(id, &["echo", ATTACKER, "9000", "hello"])
        .await;
    world
        .is_refused(id, &["tls", WEB, "443", "attacker.example"])
        .await;
    world
        .reaches(
            id,
            &["tls", WEB, "443", "allowed.example"],
            "hello from allowed.example",
        )
        .await;
    world.no_server_was_reached();
}

pub(crate) async fn routes_and_addresses_cannot_be_changed(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for change in [
        "route add 198.51.100.0/24 dev lo",
        "route replace default via 192.0.0.1",
        "route flush table main",
        "rule add from all lookup 100",
        "address add 198.51.100.1/24 dev lo",
        "address flush dev lo",
        "link add name v type veth",
        "link add name d type dummy",
        "link set lo down",
        "link set lo netns 1",
        "neighbour add 198.51.100.66 lladdr 02:00:00:00:00:01 dev lo",
        "tuntap add mode tun",
    ] {
        let said = world.shell(&id, &format!("/usr/sbin/ip {change}")).await;
        assert!(
            said.code.is_some_and(|code| code != 0),
            "{change}: {said:?}"
        );
        assert!(!said.stderr.contains("not found"), "{said:?}");
    }
    nothing_changed(world, &id).await;
}

pub(crate) async fn packet_filter_cannot_be_changed(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for change in [
        "flush ruleset",
        "delete table inet sandbar",
        "add table inet mine",
        "list ruleset",
    ] {
        let said = world.shell(&id, &format!("/usr/sbin/nft {change}")).await;
        let held = said.code.is_some_and(|code| code != 0) || said.stdout.trim().is_empty();
        assert!(
            held && !said.stderr.contains("not found"),
            "{change}: {said:?}"
        );
    }
    nothing_changed(world, &id).await;
}

pub(crate) async fn other_namespaces_give_no_access(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    let attempt = format!("/usr/bin/python3 guest.py echo {ATTACKER} 9000 hello");
    for prefix in [
        "unshare -n",
        "unshare -Urn",
        "unshare -Urnm",
        "nsenter --net=/proc/1/ns/net",
        "nsenter -t 1 -a",
    ] {
        let said = world.shell(&id, &format!("{prefix} {attempt}")).await;
        assert!(!said.stdout.contains("reached"), "{prefix}: {said:?}");
    }
    nothing_changed(world, &id).await;
}

pub(crate) async fn kernel_settings_cannot_be_changed(world: &mut World<'_>) {
    let id = world.session("s", NAMED).await;
    for setting in [
        "ipv4/ip_forward",
        "ipv4/ip_nonlocal_bind",
        "ipv4/conf/all/route_localnet",
        "ipv4/ip_unprivileged_port_start",
    ] {
        let said = world
            .shell(&id, &format!("echo 0 > /proc/sys/net/{setting}"))
            .await;
        assert!(
            said.code.is_some_and(|code| code != 0),
            "{setting}: {said:?}"
        );
    }
    nothing_changed(world, &id).await;
}

pub(crate) async fn ports_of_the_netns_listeners_cannot_be_taken(world: &mut World<'_>) {
    const SQUATTER: &str = r#"
import socket, threading
listeners = [socket.create_server(("0.0.0.0", port)) for port in (8443, 3128)]
print("ready", flush=True)
threading.Event().wait()
"#;
    let id = world.session("s", NAMED).await;
    let places = [
        "192.0.0.1 1",
        "192.0.0.1 53",
        "192.0.0.1 3128",
        "0.0.0.0 1",
        "0.0.0.0 443",
    ];
    let script = places
        .map(|place| format!("/usr/bin/python3 guest.py hijack {place}"))
        .join("\n");
    let said = world.shell(&id, &script).await;
    assert_eq!(
        (said.code, said.stdout.lines().count()),
        (Some(0), 5),
        "{said:?}"
    );
    // One that listens everywhere and stays gets what is meant for the session itself, and nothing
    // else.
    world.launch(&id, SQUATTER, &[]).await;
    world
        .reaches(
            &id,
            &["tls", WEB, "8443", "allowed.example"],
            "hello from allowed.example",
        )
        .await;
    world
        .is_refused(&id, &["tls", WEB, "8443", "attacker.example"])
        .await;
    nothing_changed(world, &id).await;
}

pub(crate) async fn sibling_session_cannot_be_reached(world: &mut World<'_>) {
    const SERVER: &str = r#"
import socket
listener = socket.create_server(("0.0.0.0", 9000))
print("ready", flush=True)
while True:
    peer, _ = listener.accept()
    words = peer.recv(99)
    with open("asked", "a") as file:
        file.write("x")
    peer.sendall(words)
    peer.close()
"#;
    let sibling = world.session("sibling", "full").await;
    world.launch(&sibling, SERVER, &[]).await;
    let id = world.session("s", "full").await;
    for address in [
        "192.0.0.2",
        "127.0.0.1",
        "192.0.0.1",
        "fd73:616e:6462::2",
        "::1",
        "203.0.113.200",
    ] {
        world
            .is_refused(&id, &["echo", address, "9000", "hello"])
            .await;
    }
    assert_eq!(world.fixture.read(&sibling, "asked").await, None);
    world
        .reaches(&sibling, &["echo", "192.0.0.2", "9000", "hello"], "hello")
        .await;
    assert_eq!(
        world.fixture.read(&sibling, "asked").await.as_deref(),
        Some("x")
    );
    world.no_server_was_reached();
}

pub(crate) async fn closed_session_reaches_nothing(world: &mut World<'_>) {
    let id = world.session("s", "none").await;
    world
        .is_refused(&id, &["echo", ATTACKER, "9000", "hello"])
        .await;
    world
        .is_refused(&id, &["echo", METADATA, "80", "hello"])
        .await;
    world
        .is_refused(&id, &["tls", WEB, "443", "allowed.example"])
        .await;
    world.is_refused(&id, &["udp", DNS, "53", "hello"]).await;
    world.is_refused(&id, &["lookup", "allowed.example"]).await;
    world
        .is_refused(
            &id,
            &[
                "say",
                "192.0.0.1",
                "3128",
                "CONNECT allowed.example:443 HTTP/1.1",
            ],
        )
        .await;
    assert_eq!(world.internet.packets(), []);
    world.no_server_was_reached();
}

pub(crate) async fn reclosed_session_reaches_nothing(world: &mut World<'_>) {
    let id = world.session("s", "full").await;
    world
        .reaches(&id, &["tls", WEB, "443", "allowed.example"], "hello")
        .await;
    world.set(&id, "none").await;
    world
        .is_refused(&id, &["tls", WEB, "443", "allowed.example"])
        .await;
    world.is_refused(&id, &["lookup", "allowed.example"]).await;
    world
        .is_refused(&id, &["echo", ATTACKER, "9000", "hello"])
        .await;
    world.no_server_was_reached();
}
