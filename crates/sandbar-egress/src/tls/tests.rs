//! Certificates of a session CA, checked with OpenSSL and webpki.

use std::{path::Path, process::Command, sync::Arc};

use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use sandbar_core::DomainName;
use tokio::{net::TcpListener, net::TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::GatewaySettings;

const DAY: u64 = 24 * 60 * 60;

fn name(text: &str) -> DomainName {
    text.parse().unwrap()
}

/// Returns the certificate that a client of this host receives.
async fn presented(authority: &Authority, host: &DomainName) -> CertificateDer<'static> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = authority.server_config(host).unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        TlsAcceptor::from(config).accept(stream).await.map(drop)
    });
    let directory = tempfile::tempdir().unwrap();
    let upstream = trusting(
        &directory.path().join("ca.pem"),
        authority.certificate_pem(),
    )
    .unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = upstream
        .connect(stream, host, HttpVersions::Http1Or2)
        .await
        .unwrap();
    server.await.unwrap().unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    stream.get_ref().1.peer_certificates().unwrap()[0]
        .clone()
        .into_owned()
}

fn trusting(path: &Path, pem: &str) -> sandbar_core::Result<UpstreamTls> {
    std::fs::write(path, pem).unwrap();
    UpstreamTls::new(&GatewaySettings {
        trusted_certificates: Some(path.to_owned()),
        ..GatewaySettings::default()
    })
}

fn openssl(arguments: &[&str], directory: &Path) -> String {
    let output = Command::new("openssl")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "openssl {arguments:?}: {text}");
    text
}

#[tokio::test]
async fn openssl_accepts_the_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new("s-0123456789").unwrap();
    let host = name("api.example.com");
    std::fs::write(directory.path().join("ca.pem"), authority.certificate_pem()).unwrap();
    std::fs::write(
        directory.path().join("leaf.der"),
        presented(&authority, &host).await,
    )
    .unwrap();
    let ca = openssl(
        &["x509", "-in", "ca.pem", "-noout", "-text"],
        directory.path(),
    );
    for said in [
        "Version: 3",
        "Issuer: CN = Sandbar session s-0123456789",
        "Subject: CN = Sandbar session s-0123456789",
        "NIST CURVE: P-256",
        "X509v3 Basic Constraints: critical\n                CA:TRUE, pathlen:0",
        "X509v3 Key Usage: critical\n                Certificate Sign\n",
        "X509v3 Subject Key Identifier",
        "Signature Algorithm: ecdsa-with-SHA256",
    ] {
        assert!(ca.contains(said), "{said:?} in {ca}");
    }
    let leaf = openssl(
        &[
            "x509", "-inform", "der", "-in", "leaf.der", "-noout", "-text",
        ],
        directory.path(),
    );
    for said in [
        "Subject: CN = api.example.com",
        "DNS:api.example.com",
        "TLS Web Server Authentication",
        "X509v3 Key Usage: critical\n                Digital Signature\n",
        "X509v3 Authority Key Identifier",
        "CA:FALSE",
    ] {
        assert!(leaf.contains(said), "{said:?} in {leaf}");
    }
    openssl(
        &[
            "x509", "-inform", "der", "-in", "leaf.der", "-out", "leaf.pem",
        ],
        directory.path(),
    );
    let verify = [
        "verify",
        "-x509_strict",
        "-purpose",
        "sslserver",
        "-CAfile",
        "ca.pem",
        "-verify_hostname",
    ];
    openssl(
        &[&verify[..], &["api.example.com", "leaf.pem"]].concat(),
        directory.path(),
    );
    let mut other = Command::new("openssl");
    other
        .args(verify)
        .args(["b.example", "leaf.pem"])
        .current_dir(directory.path());
    assert!(!other.output().unwrap().status.success());
}

#[tokio::test]
async fn certificate_is_valid_for_its_host_and_time_only() {
    let authority = Authority::new("s-1").unwrap();
    let host = name("api.example.com");
    let leaf = presented(&authority, &host).await;
    let verify = |authority: &Authority, host: &str, at: u64| {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap();
        let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at));
        let host = ServerName::try_from(host.to_owned()).unwrap();
        verifier
            .verify_server_cert(&leaf, &[], &host, &[], at)
            .is_ok()
    };
    let now = UnixTime::now().as_secs();
    assert!(
        verify(&authority, "api.example.com", now)
            && verify(&authority, "api.example.com", now + 6 * DAY)
    );
    assert!(!verify(&authority, "www.example.com", now));
    assert!(!verify(&authority, "api.example.com", now - 2 * DAY));
    assert!(!verify(&authority, "api.example.com", now + 8 * DAY));
    assert!(
        !verify(&Authority::new("s-1").unwrap(), "api.example.com", now),
        "each authority has its own key"
    );
}

#[tokio::test]
async fn long_names_get_a_certificate_that_is_cached() {
    let authority = Authority::new(&"x".repeat(200)).unwrap();
    let long = name(&format!("{0}.{0}.{0}.example", "a".repeat(63)));
    presented(&authority, &long).await;
    let first = authority.server_config(&long).unwrap();
    assert!(Arc::ptr_eq(
        &first,
        &authority.server_config(&long).unwrap()
    ));
    for number in 0..1024 {
        authority
            .server_config(&name(&format!("host-{number}.example")))
            .unwrap();
    }
    assert!(
        !Arc::ptr_eq(&first, &authority.server_config(&long).unwrap()),
        "the oldest is evicted"
    );
}

#[test]
fn debug_output_of_a_ca_hides_its_key() {
    let shown = format!("{:?}", Authority::new("s-1").unwrap());
    assert_eq!(shown, "Authority { name: \"Sandbar session s-1\", .. }");
}

#[test]
fn file_without_certificates_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for bad in [
        "",
        "nonsense",
        broken,
        "-----BEGIN CERTIFICATE-----\nAAAA\n",
    ] {
        let error = trusting(&path, bad).unwrap_err();
        assert_eq!(error.field(), Some("egress_ca_file"), "{bad:?}");
        assert!(error.hint().is_some());
    }
    let missing = directory.path().join("missing");
    let settings = GatewaySettings {
        trusted_certificates: Some(missing),
        ..GatewaySettings::default()
    };
    assert_eq!(
        UpstreamTls::new(&settings).unwrap_err().field(),
        Some("egress_ca_file")
    );
    UpstreamTls::new(&GatewaySettings::default()).unwrap();
}

#[tokio::test]
async fn server_with_wrong_certificate_is_refused() {
    let (inside, stranger) = (
        Authority::new("inside").unwrap(),
        Authority::new("stranger").unwrap(),
    );
    let directory = tempfile::tempdir().unwrap();
    let upstream = trusting(&directory.path().join("ca.pem"), inside.certificate_pem()).unwrap();
    let host = name("api.example");
    for config in [
        stranger.server_config(&host).unwrap(),
        inside.server_config(&name("b.example")).unwrap(),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            TlsAcceptor::from(config).accept(stream).await.is_ok()
        });
        let stream = TcpStream::connect(address).await.unwrap();
        let reason = upstream
            .connect(stream, &host, HttpVersions::Http1)
            .await
            .unwrap_err();
        assert!(reason.contains("certificate"), "{reason}");
        server.await.unwrap();
    }
}
