//! Certificates of the internet, made by `openssl`: they share nothing with the code under test.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use tokio_rustls::rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};

/// One certificate for all names, as on a server with many names at one address.
const NAMES: &[&str] = &[
    "DNS:allowed.example",
    "DNS:*.allowed.example",
    "DNS:other.example",
    "DNS:attacker.example",
    "DNS:*.attacker.example",
    "DNS:api.example",
    "DNS:git.example",
    "DNS:pypi.example",
    "DNS:redirect.example",
    "DNS:doh.example",
    "DNS:dot.example",
    "DNS:evil.example",
    "DNS:six.example",
    "DNS:both.example",
    "DNS:intern.example",
    "DNS:rebind.example",
    "IP:203.0.113.10",
    "IP:203.0.113.53",
    "IP:203.0.113.200",
    "IP:198.51.100.66",
    "IP:10.66.0.10",
    "IP:2001:db8::10",
];

#[derive(Debug)]
pub(super) struct Certificates {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificates {
    pub(super) fn make(directory: &Path) -> Self {
        let at = |name: &str| directory.join(name);
        let (authority, authority_key) = (at("authority.pem"), at("authority.key"));
        let made = Self {
            authority: authority.clone(),
            certificate: at("certificate.pem"),
            key: at("certificate.key"),
        };
        request(
            &authority,
            &authority_key,
            "/CN=authority of a test",
            |command| {
                command.args([
                    "-addext",
                    "basicConstraints=critical,CA:TRUE",
                    "-addext",
                    "keyUsage=critical,keyCertSign",
                ]);
            },
        );
        request(
            &made.certificate,
            &made.key,
            "/CN=the internet of a test",
            |command| {
                command
                    .arg("-CA")
                    .arg(&authority)
                    .arg("-CAkey")
                    .arg(&authority_key);
                let names = format!("subjectAltName={}", NAMES.join(","));
                command.args([
                    "-addext",
                    &names,
                    "-addext",
                    "basicConstraints=critical,CA:FALSE",
                ]);
            },
        );
        made
    }

    pub(super) fn authority(&self) -> &Path {
        &self.authority
    }

    pub(super) fn server_config(&self) -> Arc<ServerConfig> {
        let certificate = CertificateDer::from_pem_file(&self.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_protocol_versions(&[&TLS12, &TLS13])
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate], key)
                .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec(), b"dot".to_vec()];
        Arc::new(config)
    }
}

fn request(certificate: &Path, key: &Path, subject: &str, more: impl FnOnce(&mut Command)) {
    let mut command = Command::new("openssl");
    // The system's settings would add extensions of their own.
    command.args([
        "req",
        "-x509",
        "-config",
        "/dev/null",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ]);
    command
        .args(["-nodes", "-sha256", "-days", "2", "-subj", subject])
        .arg("-keyout")
        .arg(key);
    command.arg("-out").arg(certificate);
    more(&mut command);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
