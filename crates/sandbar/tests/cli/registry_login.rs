//! `base login`, and images of a registry that requires credentials.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Stdio,
};

use sandbar_testing::tree::scratch;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::world::{Said, World, alone_command};

const PASSWORD: &str = "hunter2-of-the-registry";
/// `me` and the password in Basic authentication.
const PAIR: &str = "bWU6aHVudGVyMi1vZi10aGUtcmVnaXN0cnk=";

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold("sha256:".to_owned(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
}

/// Returns an image with one file as the documents of a registry by path.
fn image() -> HashMap<String, Vec<u8>> {
    let mut layer = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(7);
    layer
        .append_data(&mut header, "motd", &b"private"[..])
        .unwrap();
    let layer = layer.into_inner().unwrap();
    let architecture = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let config = json!({ "architecture": architecture, "os": "linux", "config": {} })
        .to_string()
        .into_bytes();
    let part = |kind: &str, bytes: &[u8]| {
        let kind = format!("application/vnd.oci.image.{kind}");
        json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() })
    };
    let manifest = json!({
        "schemaVersion": 2,
        "config": part("config.v1+json", &config),
        "layers": [part("layer.v1.tar", &layer)],
    });
    let mut files = HashMap::from([(
        "/v2/tool/manifests/1".to_owned(),
        manifest.to_string().into_bytes(),
    )]);
    for bytes in [config, layer] {
        files.insert(format!("/v2/tool/blobs/{}", digest(&bytes)), bytes);
    }
    files
}

/// Starts a registry with that image that requires the password. It ends with the process of the
/// test.
fn private_registry() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let files = image();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // An error of one client does not affect the next.
            let _ = answer(&files, stream.unwrap());
        }
    });
    address
}

fn answer(files: &HashMap<String, Vec<u8>>, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
        // The client tries TLS first.
        if head[0] == 0x16 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let known = head
        .lines()
        .any(|line| line.eq_ignore_ascii_case(&format!("authorization: Basic {PAIR}")));
    let (status, body) = match files.get(path) {
        _ if !known => (
            "401 Unauthorized\r\nwww-authenticate: Basic realm=\"test\"",
            &[][..],
        ),
        Some(body) => ("200 OK", &body[..]),
        None => ("404 Not Found", &[][..]),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

fn log_in(docker: &Path, password: &str, arguments: &[&str]) -> Said {
    let mut command = alone_command(["base", "login"].iter().chain(arguments));
    let command = command.env("DOCKER_CONFIG", docker).stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may exit before it has read anything.
    let _ = child.stdin.take().unwrap().write_all(password.as_bytes());
    Said::from_output(child.wait_with_output().unwrap())
}

impl World {
    fn import(&self, docker: &Path, name: &str, registry: SocketAddr) -> Said {
        let image = format!("{registry}/tool:1");
        let mut command = self
            .server
            .client(["base", "import", name, "--image", &image]);
        let path = format!("{}:{}", docker.display(), std::env::var("PATH").unwrap());
        Said::from_output(
            command
                .env("DOCKER_CONFIG", docker)
                .env("PATH", path)
                .output()
                .unwrap(),
        )
    }
}

#[test]
fn a_private_image_is_imported_after_a_login() {
    let (world, home, registry) = (World::new(), scratch(), private_registry());
    let docker = home.path().join("docker");
    let name = registry.to_string();
    world
        .import(&docker, "tool", registry)
        .refused(1, &["denied access to", "sandbar base login"]);

    let login = log_in(&docker, "wrong\n", &[&name, "-u", "me", "--password-stdin"]);
    assert_eq!(login.data(), format!("{name}\n"));
    world
        .import(&docker, "tool", registry)
        .refused(1, &["denied access to", "credentials"]);

    let login = log_in(
        &docker,
        &format!("{PASSWORD}\n"),
        &[&name, "-u", "me", "--password-stdin"],
    );
    assert!(!login.stderr.contains(PASSWORD), "{login:?}");
    let file = docker.join("config.json");
    let config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(config, json!({ "auths": { &name: { "auth": PAIR } } }));
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(world.import(&docker, "tool", registry).data(), "tool\n");

    // The host keeps no credentials and does not print them.
    for secret in [PASSWORD, PAIR] {
        assert!(!world.server.said().contains(secret));
        for entry in fs::read_dir(world.server.data_dir()).unwrap() {
            let path = entry.unwrap().path();
            let content = fs::read(&path).unwrap_or_default();
            assert!(
                !String::from_utf8_lossy(&content).contains(secret),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn a_credential_helper_is_asked_for_its_registry() {
    let (world, home, registry) = (World::new(), scratch(), private_registry());
    let docker = home.path();
    let helper = docker.join("docker-credential-test");
    let config = json!({ "credHelpers": { registry.to_string(): "test" } });
    fs::write(docker.join("config.json"), config.to_string()).unwrap();
    // A missing helper is reported, and the image is requested without credentials.
    let without = world.import(docker, "tool", registry);
    assert_eq!(without.code, 1, "{without:?}");
    assert!(
        without.stderr.contains("note: no credentials for registry"),
        "{without:?}"
    );

    let script = format!(
        "#!/bin/sh\n[ \"$1 $(cat)\" = 'get {registry}' ] && echo '{{\"Username\": \"me\", \"Secret\": \"{PASSWORD}\"}}'\n"
    );
    fs::write(&helper, script).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(world.import(docker, "tool", registry).data(), "tool\n");
    let login = log_in(
        docker,
        PASSWORD,
        &[&registry.to_string(), "-u", "me", "--password-stdin"],
    );
    login.refused(1, &["docker-credential-test"]);
}

#[test]
fn a_login_needs_a_registry_a_name_and_a_password() {
    let home = scratch();
    log_in(home.path(), "x", &["ghcr", "-u", "me", "--password-stdin"]).refused(2, &["ghcr.io"]);
    log_in(home.path(), "x", &["ghcr.io", "--password-stdin"]).refused(2, &["--username"]);
    log_in(home.path(), "x", &["ghcr.io", "-u", "me"]).refused(2, &["--password-stdin"]);
    log_in(
        home.path(),
        "\n",
        &["ghcr.io", "-u", "me", "--password-stdin"],
    )
    .refused(2, &["empty"]);
    assert!(!home.path().join("config.json").exists());
    fs::write(home.path().join("config.json"), "nonsense").unwrap();
    let broken = log_in(
        home.path(),
        "x",
        &["ghcr.io", "-u", "me", "--password-stdin"],
    );
    broken.refused(1, &["config.json", "DOCKER_CONFIG"]);
    assert_eq!(
        fs::read_to_string(home.path().join("config.json")).unwrap(),
        "nonsense"
    );
}
