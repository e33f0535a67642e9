//! `up --tls`, and the program as a client of such a host.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use sandbar_testing::{TestServer, tree::scratch};

use crate::world::{Said, World, alone, options};

fn automatic() -> World {
    World {
        server: TestServer::start(&options().argument("--tls").argument("auto")),
    }
}

/// Creates a certificate with its own authority by `openssl`: `NAME.pem`, `NAME.key` and
/// `NAME-ca.pem`.
fn certificate(directory: &Path, name: &str, usage: &str) {
    let openssl = |arguments: &str, extension: &str| {
        let mut command = Command::new("openssl");
        command
            .args(arguments.split(' '))
            .args(["-addext", extension])
            .current_dir(directory);
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let new =
        "req -x509 -config /dev/null -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    openssl(
        &format!(
            "{new} -subj /CN=ca -keyout {name}-ca.key -out {name}-ca.pem -addext basicConstraints=critical,CA:TRUE"
        ),
        "keyUsage=critical,keyCertSign",
    );
    let signed = format!(
        "-CA {name}-ca.pem -CAkey {name}-ca.key -addext basicConstraints=critical,CA:FALSE"
    );
    let names = "-addext subjectAltName=DNS:localhost,IP:127.0.0.1";
    openssl(
        &format!("{new} -subj /CN={name} -keyout {name}.key -out {name}.pem {signed} {names}"),
        &format!("extendedKeyUsage={usage}"),
    );
}

#[test]
fn with_tls_auto_every_verb_works_and_nothing_is_exported() {
    let world = automatic();
    assert!(
        world.server.url().starts_with("https://127.0.0.1:"),
        "{}",
        world.server.url()
    );
    let address = fs::read_to_string(world.server.data_dir().join("address")).unwrap();
    assert_eq!(address.trim(), world.server.url());
    world.sandbox("box");
    assert_eq!(world.shell("box", "echo over tls"), "over tls\n");
    assert_eq!(
        world.run(["run", "--", "sh", "-c", "echo once"]).data(),
        "once\n"
    );
    assert_eq!(
        world
            .run_with(b"typed", &["exec", "box", "--", "cat"])
            .data(),
        "typed"
    );
    assert_eq!(world.ids(), ["box"]);
    let doctor = world.run(["doctor"]);
    assert!(
        doctor
            .stdout
            .contains(&format!("{} storage local-disk", world.server.url())),
        "{doctor:?}"
    );
    let tls = world.server.data_dir().join("tls");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&tls), mode(&tls.join("authority.pem"))),
        (0o700, 0o600)
    );
}

#[test]
fn other_machines_need_authority_and_token() {
    let world = automatic();
    let elsewhere = scratch();
    let ca = world.server.data_dir().join("tls/ca.pem");
    let token = fs::read_to_string(world.server.data_dir().join("token")).unwrap();
    let port = world.server.url().rsplit(':').next().unwrap();
    let url = format!("https://localhost:{port}");
    let ask = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = world
            .server
            .client(["--url", &url].iter().chain(arguments).chain(&["ls"]));
        command
            .env("SANDBAR_DATA_DIR", elsewhere.path())
            .envs(variables.iter().copied());
        Said::from_output(command.output().unwrap())
    };
    let token = ("SANDBAR_TOKEN", token.trim());
    let ca = ca.to_str().unwrap();
    ask(&["--ca-file", ca], &[token]).data();
    ask(&[], &[token, ("SANDBAR_CA_FILE", ca)]).data();
    ask(&[], &[token]).refused(1, &["certificate"]);
    ask(&["--ca-file", ca], &[]).refused(1, &["SANDBAR_TOKEN"]);
    ask(&["--ca-file", "/no/such/file"], &[token]).refused(1, &["/no/such/file"]);
    let plain = url.replace("https", "http");
    let mut command = world.server.client(["--url", &plain, "ls"]);
    Said::from_output(command.output().unwrap()).refused(1, &[&plain]);
}

#[test]
fn restart_keeps_the_authority_and_no_tls_hides_it() {
    let directory = scratch();
    let ca = directory.path().join("tls/ca.pem");
    let start = |arguments: &[&str]| {
        let options = arguments
            .iter()
            .fold(options(), |options, argument| options.argument(*argument));
        World {
            server: TestServer::start_in(&options, directory.path()),
        }
    };
    let first = start(&["--tls", "auto"]);
    let made = fs::read_to_string(&ca).unwrap();
    drop(first);
    let plain = start(&[]);
    assert!(!ca.exists());
    plain.sandbox("box");
    drop(plain);
    let again = start(&["--tls", "auto"]);
    assert_eq!(fs::read_to_string(&ca).unwrap(), made);
    assert_eq!(again.ids(), ["box"]);
}

#[test]
fn certificates_and_client_authorities_come_from_files() {
    let files = scratch();
    certificate(files.path(), "server", "serverAuth");
    certificate(files.path(), "client", "clientAuth");
    let at = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let mut options = options();
    for (flag, name) in [
        ("--tls-cert", "server.pem"),
        ("--tls-key", "server.key"),
        ("--tls-client-ca", "client-ca.pem"),
    ] {
        options = options.argument(flag).argument(at(name));
    }
    let world = World {
        server: TestServer::start(&options),
    };
    let ask = |variables: &[(&str, String)]| {
        let mut command = world.server.client(["ls"]);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Said::from_output(command.output().unwrap())
    };
    let ca = ("SANDBAR_CA_FILE", at("server-ca.pem"));
    let own = [
        ("SANDBAR_CLIENT_CERT", at("client.pem")),
        ("SANDBAR_CLIENT_KEY", at("client.key")),
    ];
    ask(&[&[ca.clone()][..], &own].concat()).data();
    assert_eq!(ask(std::slice::from_ref(&ca)).code, 1, "no certificate");
    ask(&[ca, own[0].clone()]).refused(1, &["without its key"]);
}

#[test]
fn invalid_tls_settings_are_refused_with_a_hint() {
    let files = scratch();
    certificate(files.path(), "server", "serverAuth");
    let at = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let data = at("data");
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
            &data,
        ];
        alone(usual.iter().chain(more))
    };
    up(&["--tls", "always"]).refused(2, &["tls", "--tls"]);
    up(&["--tls-cert", &at("server.pem")]).refused(2, &["--tls-key"]);
    up(&["--tls-key", &at("server.key")]).refused(2, &["--tls-cert"]);
    up(&["--tls-client-ca", &at("server-ca.pem")]).refused(2, &["--tls auto"]);
    for (certificate, key, said) in [
        ("missing.pem", "server.key", "tls_cert_file"),
        ("server.pem", "server-ca.key", "tls_key_file"),
    ] {
        let said_by_up = up(&["--tls-cert", &at(certificate), "--tls-key", &at(key)]);
        assert_eq!(said_by_up.code, 1, "{said_by_up:?}");
        assert!(said_by_up.stderr.contains(said), "{said_by_up:?}");
    }
}
