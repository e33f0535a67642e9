//! TLS on the port, as `curl` and `openssl` see it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Command, Stdio},
};

use jiff::SignedDuration;
use sandbar_server::{AccessToken, LocalIdentity, ServerConfig, TlsConfig, TlsIdentity, serve};
use sandbar_x509::SubjectName;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    ingress_world::{PORT, Ports},
    tls_files::{Authority, Pair, curl},
    world::World,
};

#[test]
fn curl_connects_over_http1_and_http2_with_the_ca() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    World::run_tls(authority.server("server").tls(), async |world| {
        let version = ["--write-out", " %{http_version} %{ssl_verify_result}"];
        for (flag, spoken) in [("--http1.1", "1.1"), ("--http2", "2")] {
            let answer = world.curl(&authority.certificate(), &[&version[..], &[flag]].concat());
            assert_eq!(answer.code, 0, "{answer:?}");
            assert!(
                answer.stdout.ends_with(&format!(" {spoken} 0")),
                "{answer:?}"
            );
        }
        assert_eq!(
            world.curl(&stranger.certificate(), &[]).code,
            60,
            "an authority curl does not know"
        );
        let bearer = format!("authorization: Bearer {}", world.token);
        let url = world.https("/sandbar.v1.SandboxService/Capabilities");
        let ca = authority.certificate();
        let call = |more: &[&str]| {
            let plain = [
                "--cacert",
                ca.to_str().unwrap(),
                "--data",
                "{}",
                "--header",
                "content-type: application/json",
            ];
            curl(plain.into_iter().chain(more.iter().copied()).chain([&*url]))
        };
        let answer: Value = serde_json::from_str(&call(&["--header", &bearer]).stdout).unwrap();
        assert!(
            answer["storageBackend"].is_string() || answer["capabilities"].is_object(),
            "{answer}"
        );
        assert!(
            call(&[]).stdout.contains("unauthenticated"),
            "TLS is no token"
        );
    });
}

#[test]
fn expired_certificate_is_served_and_rejected_by_clients() {
    let authority = Authority::new();
    World::run_tls(authority.expired_server().tls(), async |world| {
        let answer = world.curl(&authority.certificate(), &[]);
        assert_eq!(answer.code, 60, "{answer:?}");
        assert!(answer.stderr.contains("expired"), "{answer:?}");
    });
}

#[test]
fn tls_prefers_http2_and_rejects_versions_before_1_2() {
    let authority = Authority::new();
    World::run_tls(authority.server("server").tls(), async |world| {
        let ask = |arguments: &[&str]| {
            let mut command = Command::new("openssl");
            command.args([
                "s_client",
                "-connect",
                &world.address.to_string(),
                "-verify_return_error",
                "-CAfile",
            ]);
            command
                .arg(authority.certificate())
                .args(arguments)
                .stdin(Stdio::null());
            let output = command.output().unwrap();
            (
                output.status.success(),
                String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
            )
        };
        for (offered, agreed) in [
            ("h2,http/1.1", "h2"),
            ("http/1.1,h2", "h2"),
            ("http/1.1", "http/1.1"),
        ] {
            let (done, said) = ask(&["-alpn", offered]);
            assert!(
                done && said.contains(&format!("ALPN protocol: {agreed}")),
                "{said}"
            );
        }
        let (done, said) = ask(&[]);
        assert!(
            done && said.contains("No ALPN negotiated") && said.contains("TLSv1.3"),
            "{said}"
        );
        let (done, said) = ask(&["-tls1_2"]);
        assert!(done && said.contains("TLSv1.2"), "{said}");
        // openssl offers old versions only at a lowered security level.
        for old in ["-tls1_1", "-tls1"] {
            let (done, said) = ask(&[old, "-cipher", "DEFAULT:@SECLEVEL=0"]);
            assert!(!done && said.contains("alert"), "{old}: {said}");
        }
        assert!(!ask(&["-alpn", "smtp"]).0, "nothing both sides speak");
    });
}

#[test]
fn client_ca_requires_a_certificate_and_the_token() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let tls = TlsConfig {
        client_ca: Some(clients.certificate()),
        ..servers.server("server").tls()
    };
    World::run_tls(tls, async |world| {
        let ask = |pair: Option<Pair>, version: &[&str]| {
            let shown: Vec<PathBuf> = pair
                .map(|pair| vec![pair.certificate, pair.key])
                .unwrap_or_default();
            let mut arguments = version.to_vec();
            if let [certificate, key] = &shown[..] {
                arguments.extend([
                    "--cert",
                    certificate.to_str().unwrap(),
                    "--key",
                    key.to_str().unwrap(),
                ]);
            }
            world.curl(&servers.certificate(), &arguments)
        };
        for version in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
            assert_eq!(ask(Some(clients.client("known")), version).code, 0);
            for refused in [
                None,
                Some(strangers.client("foreign")),
                Some(clients.expired_client()),
                Some(servers.server("of-the-server-authority")),
                // The right CA, but a server certificate.
                Some(clients.server("wrong-use")),
            ] {
                let answer = ask(refused.clone(), version);
                assert_ne!(answer.code, 0, "{refused:?}: {answer:?}");
                assert_eq!(answer.stdout, "", "{refused:?}");
            }
        }
        let known = clients.client("known");
        let url = world.https("/sandbar.v1.SandboxService/ListSessions");
        let files = [servers.certificate(), known.certificate, known.key]
            .map(|path| path.to_str().unwrap().to_owned());
        let [ca, certificate, key] = &files;
        let kind = "content-type: application/json";
        let answer = curl([
            "--cacert",
            ca,
            "--cert",
            certificate,
            "--key",
            key,
            "--header",
            kind,
            "--data",
            "{}",
            &*url,
        ]);
        assert!(answer.stdout.contains("unauthenticated"), "{answer:?}");
    });
}

#[test]
fn changed_certificate_is_reloaded_unless_invalid() {
    let (authority, next) = (Authority::new(), Authority::new());
    let server = authority.server("server");
    World::run_tls(server.tls(), async |world| {
        assert_eq!(world.curl(&authority.certificate(), &[]).code, 0);
        next.server("renewed").put_in_place_of(&server);
        assert_eq!(
            world.curl(&next.certificate(), &[]).code,
            0,
            "the new certificate is served at once"
        );
        assert_eq!(world.curl(&authority.certificate(), &[]).code, 60);
        fs::write(&server.certificate, "not a certificate").unwrap();
        assert_eq!(
            world.curl(&next.certificate(), &[]).code,
            0,
            "the last good one is kept"
        );
        fs::remove_file(&server.key).unwrap();
        assert_eq!(world.curl(&next.certificate(), &[]).code, 0);
        authority.server("again").put_in_place_of(&server);
        assert_eq!(
            world.curl(&authority.certificate(), &[]).code,
            0,
            "a mended one counts"
        );
    });
}

#[test]
fn changed_client_ca_is_reloaded() {
    let (servers, old, new) = (Authority::new(), Authority::new(), Authority::new());
    let tls = TlsConfig {
        client_ca: Some(old.certificate()),
        ..servers.server("server").tls()
    };
    World::run_tls(tls, async |world| {
        let (first, second) = (old.client("first"), new.client("second"));
        let ask = |pair: &Pair| {
            let (certificate, key) = (
                pair.certificate.to_str().unwrap(),
                pair.key.to_str().unwrap(),
            );
            world
                .curl(
                    &servers.certificate(),
                    &["--cert", certificate, "--key", key],
                )
                .code
        };
        assert_eq!(ask(&first), 0);
        assert_ne!(ask(&second), 0);
        fs::copy(new.certificate(), old.certificate()).unwrap();
        assert_ne!(ask(&first), 0);
        assert_eq!(ask(&second), 0);
    });
}

#[test]
fn plain_http_on_a_tls_port_gets_a_hint() {
    let authority = Authority::new();
    World::run_tls(authority.server("server").tls(), async |world| {
        let url = format!("http://localhost:{}/readyz", world.address.port());
        let answer = curl([&*url, "--write-out", " %{http_code}"]);
        assert_eq!(
            answer.stdout, "this port speaks TLS: use https:// in place of http://\n 400",
            "{answer:?}"
        );
        // Neither a silent nor a malformed connection blocks others.
        let _silent = TcpStream::connect(world.address).unwrap();
        let mut nonsense = TcpStream::connect(world.address).unwrap();
        nonsense
            .write_all(&[0x16, 3, 1, 0xff, 0xff, 1, 2, 3])
            .unwrap();
        let mut answer = Vec::new();
        nonsense.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = nonsense.read_to_end(&mut answer);
        assert_eq!(world.curl(&authority.certificate(), &[]).code, 0);
    });
}

#[test]
fn unusable_tls_file_is_rejected_at_start() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (server, foreign) = (authority.server("server"), other.server("server"));
    let empty = authority.path("empty.pem");
    fs::write(&empty, "").unwrap();
    let broken = authority.path("broken.pem");
    fs::write(
        &broken,
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let missing = authority.path("missing.pem");
    let files = |certificate: &PathBuf, key: &PathBuf| TlsIdentity::Files {
        certificate: certificate.clone(),
        key: key.clone(),
    };
    let good = || files(&server.certificate, &server.key);
    World::run(async |world| {
        for (identity, client_ca, field) in [
            (files(&missing, &server.key), None, "tls_cert_file"),
            (files(&empty, &server.key), None, "tls_cert_file"),
            (files(&broken, &server.key), None, "tls_cert_file"),
            (files(&server.key, &server.key), None, "tls_cert_file"),
            (files(&server.certificate, &missing), None, "tls_key_file"),
            (
                files(&server.certificate, &server.certificate),
                None,
                "tls_key_file",
            ),
            (
                files(&server.certificate, &foreign.key),
                None,
                "tls_key_file",
            ),
            (good(), Some(missing.clone()), "tls_client_ca_file"),
            (good(), Some(empty.clone()), "tls_client_ca_file"),
            (good(), Some(broken.clone()), "tls_client_ca_file"),
        ] {
            let token = AccessToken::new(world.token.clone()).unwrap();
            let said = format!("{identity:?} {client_ca:?}");
            let config = ServerConfig {
                tls: Some(TlsConfig {
                    identity,
                    client_ca,
                }),
                ..ServerConfig::new("127.0.0.1:0".parse().unwrap(), Some(token))
            };
            let error = serve(world.host.clone(), config, CancellationToken::new())
                .await
                .unwrap_err();
            assert_eq!(error.field(), Some(field), "{said}: {error:?}");
            assert!(
                error
                    .hint()
                    .is_some_and(|hint| hint.contains(field) || hint.contains("first")),
                "{error:?}"
            );
        }
    });
}

/// TLS configuration as with `--tls auto`.
fn local() -> (tempfile::TempDir, PathBuf, TlsConfig) {
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    let authority =
        sandbar_x509::Authority::new("local", SignedDuration::from_hours(3650 * 24)).unwrap();
    fs::write(&ca, authority.certificate_pem()).unwrap();
    let names = vec![
        SubjectName::Dns("localhost".to_owned()),
        SubjectName::Dns("*.localhost".to_owned()),
        SubjectName::Address("127.0.0.1".parse().unwrap()),
        SubjectName::Address("::1".parse().unwrap()),
    ];
    let identity = TlsIdentity::Local(LocalIdentity {
        authority,
        names,
        ingress_domain: "localhost".to_owned(),
    });
    (
        directory,
        ca,
        TlsConfig {
            identity,
            client_ca: None,
        },
    )
}

#[test]
fn local_ca_certifies_every_name_of_the_machine() {
    let (_directory, ca, tls) = local();
    World::run_tls(tls, async |world| {
        assert_eq!(world.curl(&ca, &[]).code, 0);
        let port = world.address.port();
        let ask = |url: String, more: &[&str]| {
            curl(
                ["--cacert", ca.to_str().unwrap(), &*url]
                    .into_iter()
                    .chain(more.iter().copied()),
            )
        };
        assert_eq!(ask(format!("https://127.0.0.1:{port}/readyz"), &[]).code, 0);
        let resolve = format!("elsewhere.example:{port}:127.0.0.1");
        let elsewhere = ask(
            format!("https://elsewhere.example:{port}/readyz"),
            &["--resolve", &resolve],
        );
        assert_eq!(elsewhere.code, 60, "{elsewhere:?}");
    });
}

#[test]
fn session_ports_are_reachable_by_name_over_tls() {
    let (_directory, ca, tls) = local();
    World::run_isolated_with(Some(tls), async |world| {
        let (id, _) = world.web_session("web", Ports::Public).await;
        let (name, port) = (format!("{PORT}-{id}.localhost"), world.address.port());
        let resolve = format!("{name}:{port}:127.0.0.1");
        for version in ["--http1.1", "--http2"] {
            let url = format!("https://{name}:{port}/head");
            let answer = curl([
                "--cacert",
                ca.to_str().unwrap(),
                "--resolve",
                &resolve,
                version,
                &*url,
            ]);
            assert_eq!(answer.code, 0, "{answer:?}");
            assert!(
                answer
                    .stdout
                    .to_lowercase()
                    .contains("x-forwarded-proto: https"),
                "{answer:?}"
            );
        }
    });
}
