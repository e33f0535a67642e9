//! `up --domain` and `--dns`: names of sandboxes, the name server, and `env` for SDKs.

use std::{
    net::{SocketAddr, UdpSocket},
    process::Command,
    time::Duration,
};

use rustix::process::Signal;
use sandbar_testing::{TestServer, tree::scratch};
use serde_json::Value;

use crate::world::{World, alone, options};

fn with(arguments: &[&str]) -> World {
    let options = arguments
        .iter()
        .fold(options(), |options, argument| options.argument(*argument));
    World {
        server: TestServer::start(&options),
    }
}

/// Returns the variables that `env` prints.
fn variables(world: &World) -> Value {
    serde_json::from_str(&world.run(["env", "--json"]).data()).unwrap()
}

/// Query of a stub resolver for the address of `49983-box.sbx.test`.
const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x0949983-box\x03sbx\x04test\0\0\x01\0\x01";

/// Asks a name server by datagram.
fn ask(server: SocketAddr, query: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    socket.send_to(query, server).unwrap();
    let mut buffer = [0; 512];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(from, server);
    buffer[..length].to_vec()
}

#[test]
fn env_with_domain_and_tls_uses_names_of_the_host() {
    let world = with(&[
        "--tls",
        "auto",
        "--domain",
        "sbx.test",
        "--dns",
        "127.0.0.1:0",
    ]);
    let port = world.server.url().rsplit(':').next().unwrap().to_owned();
    let env = variables(&world);
    assert_eq!(env["E2B_DOMAIN"], format!("sbx.test:{port}"));
    assert_eq!(
        (env.get("E2B_API_URL"), env.get("E2B_SANDBOX_URL")),
        (None, None)
    );
    assert_eq!(env["NODE_EXTRA_CA_CERTS"], env["SANDBAR_CA_FILE"]);
    assert!(env["E2B_API_KEY"].as_str().unwrap().starts_with("e2b_"));

    let lines = world.run(["env"]);
    assert!(
        lines
            .stdout
            .ends_with("unset E2B_API_URL E2B_SANDBOX_URL\n"),
        "{lines:?}"
    );
    let note = lines
        .stderr
        .split_once("names below sbx.test at ")
        .unwrap()
        .1;
    let name_server: SocketAddr = note.split_once(": ").unwrap().0.parse().unwrap();
    let answer = ask(name_server, QUERY);
    // An authoritative answer with one record: this address.
    assert_eq!(
        (&answer[2..4], &answer[6..8]),
        (&b"\x85\0"[..], &b"\0\x01"[..]),
        "{answer:?}"
    );
    assert!(answer.ends_with(b"\x7f\0\0\x01"), "{answer:?}");
    let foreign = ask(
        name_server,
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01",
    );
    assert_eq!((foreign[3] & 0xf, foreign[7]), (5, 0), "{foreign:?}");

    // With the bundle of `env`, curl trusts the host under all its names, and other servers as
    // before.
    for name in ["sbx.test", "api.sbx.test", "49983-box.sbx.test"] {
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "--http2",
            "--resolve",
            &format!("{name}:{port}:127.0.0.1"),
            "-w",
            "%{http_version} %{http_code}",
        ]);
        curl.args([
            "-o",
            "/dev/null",
            "--cacert",
            env["SSL_CERT_FILE"].as_str().unwrap(),
        ]);
        let output = curl
            .arg(format!("https://{name}:{port}/healthz"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && said.starts_with("2 "),
            "{name}: {said} {output:?}"
        );
    }
    let finished = world.server.stop_with(Signal::TERM);
    assert!(
        finished
            .said
            .contains("answers for sbx.test and names below it"),
        "{}",
        finished.said
    );
}

#[test]
fn trust_is_taken_back_only_where_it_was_given() {
    let world = with(&["--tls", "auto", "--domain", "sbx.test"]);
    let env = variables(&world);
    let unset = |value: &str| {
        let mut command = world.server.client(["env", "--unset"]);
        String::from_utf8(command.env("SSL_CERT_FILE", value).output().unwrap().stdout).unwrap()
    };
    assert!(unset(env["SSL_CERT_FILE"].as_str().unwrap()).contains("SSL_CERT_FILE"));
    assert!(!unset("/etc/ssl/own.pem").contains("SSL_CERT_FILE"));
    assert!(world.run(["env"]).stderr.contains("sandbar up --dns"));
}

#[test]
fn env_with_tls_alone_uses_the_address() {
    let world = with(&["--tls", "auto"]);
    let env = variables(&world);
    assert_eq!(
        (&env["E2B_API_URL"], env.get("E2B_DOMAIN")),
        (&Value::from(world.server.url()), None)
    );
    assert!(
        env["SSL_CERT_FILE"]
            .as_str()
            .unwrap()
            .ends_with("/tls/bundle.pem")
    );
}

#[test]
fn useless_name_server_is_refused() {
    let directory = scratch();
    let data = directory.path().join("data");
    let up = |more: &[&str]| {
        let usual = [
            "up",
            "--listen",
            "127.0.0.1:0",
            "--storage",
            "local-disk",
            "--runtime",
            "none",
            "--data-dir",
        ];
        alone(usual.iter().chain(&[data.to_str().unwrap()]).chain(more))
    };
    up(&["--dns", "127.0.0.1:0"]).refused(2, &["localhost", "--domain"]);
    up(&["--domain", "sbx.test", "--dns", "0.0.0.0:0"]).refused(2, &["0.0.0.0:0", "--listen"]);
    up(&["--domain", "127.0.0.1"]).refused(2, &["ingress_domain"]);
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let said = up(&[
        "--domain",
        "sbx.test",
        "--dns",
        &taken.local_addr().unwrap().to_string(),
    ]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr.contains("name server cannot listen") && said.stderr.contains("--dns"),
        "{said:?}"
    );
}
