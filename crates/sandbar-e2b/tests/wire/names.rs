//! A host with TLS and a domain, and clients that reach it by names only: they use its name server
//! and trust its CA.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::SignedDuration;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use sandbar_egress::{NameServer, Zone};
use sandbar_server::{LocalIdentity, TlsConfig, TlsIdentity};
use sandbar_x509::{Authority, SubjectName};
use serde_json::{Value, json};
use tokio::net::{TcpStream, UdpSocket};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{client::Answer, world::World};

pub(crate) const DOMAIN: &str = "sbx.test";

/// Configuration of a client: name server and CA.
pub(crate) struct Names {
    name_server: NameServer,
    roots: Arc<RootCertStore>,
    port: u16,
    api_key: String,
}

/// Runs a test against a host with a domain.
pub(crate) fn run(test: impl AsyncFnOnce(&World, &Names)) {
    let authority = Authority::new("test", SignedDuration::from_hours(3650 * 24)).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes()).unwrap())
        .unwrap();
    let names = vec![
        SubjectName::Dns(DOMAIN.to_owned()),
        SubjectName::Dns(format!("*.{DOMAIN}")),
    ];
    let local = LocalIdentity {
        authority,
        names,
        ingress_domain: DOMAIN.to_owned(),
    };
    let tls = TlsConfig {
        identity: TlsIdentity::Local(local),
        client_ca: None,
    };
    World::run_with(
        |config| config.ingress_domain = DOMAIN.parse().unwrap(),
        Some(tls),
        async |world| {
            let zone = Zone::new(&DOMAIN.parse().unwrap(), vec![world.address.ip()]);
            let name_server = NameServer::start((Ipv4Addr::LOCALHOST, 0).into(), zone)
                .await
                .unwrap();
            let (port, api_key) = (world.address.port(), world.api_key.clone());
            test(
                world,
                &Names {
                    name_server,
                    roots: Arc::new(roots),
                    port,
                    api_key,
                },
            )
            .await;
        },
    );
}

impl Names {
    /// Resolves a name as a stub resolver does.
    async fn resolve(&self, name: &str) -> Ipv4Addr {
        let mut query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0".to_vec();
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(b"\0\0\x01\0\x01");
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket.connect(self.name_server.address()).await.unwrap();
        socket.send(&query).await.unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).await.unwrap();
        assert_eq!(answer[6..8], [0, 1], "{name} leads nowhere");
        let address: [u8; 4] = answer[length - 4..length].try_into().unwrap();
        address.into()
    }

    /// Connects to a name of the host with one of these ALPN protocols.
    pub(crate) async fn connect(&self, name: &str, protocol: &[u8]) -> TlsStream<TcpStream> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(
            rustls::crypto::aws_lc_rs::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(Arc::clone(&self.roots))
        .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let address = SocketAddr::new(self.resolve(name).await.into(), self.port);
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector
            .connect(ServerName::try_from(name.to_owned()).unwrap(), stream)
            .await
            .unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        stream
    }

    /// Opens an HTTP/2 connection to a name of the host.
    pub(crate) async fn connect_2(&self, name: &str) -> http2::SendRequest<Full<Bytes>> {
        let stream = TokioIo::new(self.connect(name, b"h2").await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream)
            .await
            .unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Sends a request over HTTP/1.1 to a name of the host, and reads the answer.
    pub(crate) async fn send(
        &self,
        name: &str,
        request: http::request::Builder,
        body: &str,
    ) -> Answer {
        let stream = TokioIo::new(self.connect(name, b"http/1.1").await);
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = request
            .header("host", self.authority(name))
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        read(sender.send_request(request).await.unwrap()).await
    }

    pub(crate) fn api_key(&self) -> &str {
        &self.api_key
    }

    pub(crate) fn authority(&self, name: &str) -> String {
        format!("{name}:{}", self.port)
    }

    /// Calls the control API.
    pub(crate) async fn control(&self, method: &str, path: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("x-api-key", &self.api_key)
            .header("content-type", "application/json");
        self.send(&format!("api.{DOMAIN}"), request, &body.to_string())
            .await
    }

    /// Creates a sandbox and returns the response.
    pub(crate) async fn sandbox(&self) -> Value {
        let answer = self
            .control("POST", "/v2/sandboxes", &json!({ "templateID": "base" }))
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }
}

/// Reads a complete response.
pub(crate) async fn read(response: http::Response<hyper::body::Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    Answer {
        status: head.status,
        headers: head.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}
