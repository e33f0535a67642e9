//! Test registry on loopback.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Frame, Incoming},
    header,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::SignedDuration;
use rustls::{ServerConfig, sign::SingleCertAndKey};
use sandbar_x509::{Authority, ServerKey, SubjectName};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::image::Images;

pub(crate) type Body = BoxBody<Bytes, std::io::Error>;
type Trick = Box<dyn Fn(&Asked, &[Asked]) -> Option<Response<Body>> + Send + Sync>;

/// A request, as far as tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) range: Option<u64>,
}

/// It goes on until the test's runtime ends.
pub(crate) struct TestRegistry {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// CA certificate for clients, with TLS.
    pub(crate) authority: Option<String>,
}

impl TestRegistry {
    /// Starts a registry that serves these images and nothing else.
    pub(crate) async fn honest(images: Images) -> Self {
        Self::with(images, |_, _| None).await
    }

    /// Starts a registry that first calls `trick` with the request and all earlier ones, and serves
    /// the images when it returns `None`.
    pub(crate) async fn with(
        images: Images,
        trick: impl Fn(&Asked, &[Asked]) -> Option<Response<Body>> + Send + Sync + 'static,
    ) -> Self {
        Self::start(images, Box::new(trick), None).await
    }

    pub(crate) async fn over_tls(images: Images) -> Self {
        let authority = Authority::new("test registry", SignedDuration::from_hours(1)).unwrap();
        let names = [SubjectName::Address(Ipv4Addr::LOCALHOST.into())];
        let (key, _) = authority
            .certify(
                &names,
                &ServerKey::new().unwrap(),
                SignedDuration::from_hours(1),
            )
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let tls = (
            TlsAcceptor::from(Arc::new(config)),
            authority.certificate_pem().to_owned(),
        );
        Self::start(images, Box::new(|_, _| None), Some(tls)).await
    }

    async fn start(images: Images, trick: Trick, tls: Option<(TlsAcceptor, String)>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let state = Arc::new((images, trick, Arc::clone(&asked)));
        let (acceptor, authority) = tls.unzip();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (state, acceptor) = (Arc::clone(&state), acceptor.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let state = Arc::clone(&state);
                        async move {
                            let (images, trick, asked) = &*state;
                            Ok::<_, Infallible>(answer(images, trick, asked, &request))
                        }
                    });
                    let http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    // Clients go away when they have seen enough.
                    let _ = match acceptor {
                        None => http.serve_connection(TokioIo::new(stream), service).await,
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => {
                                http.serve_connection(TokioIo::new(stream), service).await
                            }
                            Err(_) => Ok(()),
                        },
                    };
                });
            }
        });
        Self {
            address,
            asked,
            authority,
        }
    }

    /// The name of an image here.
    pub(crate) fn image(&self, rest: &str) -> sandbar_oci::ImageReference {
        format!("{}/team/tool{rest}", self.address).parse().unwrap()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    images: &Images,
    trick: &Trick,
    log: &Mutex<Vec<Asked>>,
    request: &Request<Incoming>,
) -> Response<Body> {
    let header = |name| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let range = header(header::RANGE);
    let asked = Asked {
        path: request.uri().path_and_query().unwrap().to_string(),
        authorization: header(header::AUTHORIZATION),
        range: range.map(|range| {
            range
                .trim_start_matches("bytes=")
                .trim_end_matches('-')
                .parse()
                .unwrap()
        }),
    };
    let mut log = log.lock().unwrap();
    let response = trick(&asked, &log).unwrap_or_else(|| honest(images, &asked));
    log.push(asked);
    response
}

pub(crate) fn honest(images: &Images, asked: &Asked) -> Response<Body> {
    let known = |digest: &str| images.parts.get(digest).cloned();
    let found = match asked
        .path
        .strip_prefix("/v2/team/tool/")
        .and_then(|path| path.split_once('/'))
    {
        Some(("manifests", version)) => {
            known(images.tags.get(version).map_or(version, String::as_str))
        }
        Some(("blobs", digest)) => known(digest),
        _ => None,
    };
    let Some(bytes) = found else {
        return status(404);
    };
    match asked.range {
        None => full(200, bytes),
        Some(from) => {
            let from = usize::try_from(from).unwrap();
            let mut response = full(206, bytes[from..].to_vec());
            let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
            response
                .headers_mut()
                .insert(header::CONTENT_RANGE, range.parse().unwrap());
            response
        }
    }
}

pub(crate) fn status(code: u16) -> Response<Body> {
    full(code, Vec::new())
}

pub(crate) fn full(code: u16, bytes: Vec<u8>) -> Response<Body> {
    let body = http_body_util::Full::new(Bytes::from(bytes))
        .map_err(|never| match never {})
        .boxed();
    Response::builder()
        .status(StatusCode::from_u16(code).unwrap())
        .body(body)
        .unwrap()
}

pub(crate) fn with_header(
    mut response: Response<Body>,
    name: header::HeaderName,
    value: &str,
) -> Response<Body> {
    response.headers_mut().insert(name, value.parse().unwrap());
    response
}

pub(crate) fn redirect(to: &str) -> Response<Body> {
    with_header(status(307), header::LOCATION, to)
}

/// Sends these bytes, and breaks the connection.
pub(crate) fn broken_after(bytes: Vec<u8>) -> Response<Body> {
    let chunks = [
        Ok(Frame::data(Bytes::from(bytes))),
        Err(std::io::Error::other("cut")),
    ];
    // The bytes get out before the connection goes down.
    let chunks = stream::iter(chunks).then(async |chunk| {
        tokio::task::yield_now().await;
        chunk
    });
    Response::new(BodyExt::boxed(StreamBody::new(chunks)))
}

/// Sends zeros until the client disconnects.
pub(crate) fn endless() -> Response<Body> {
    let zeros = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[0; 4096]))));
    Response::new(BodyExt::boxed(StreamBody::new(zeros)))
}

/// Sends a few bytes, and then nothing more.
pub(crate) fn stalled() -> Response<Body> {
    let begin = stream::iter([Ok(Frame::data(Bytes::from_static(&[0; 10])))]);
    Response::new(BodyExt::boxed(StreamBody::new(
        begin.chain(stream::pending()),
    )))
}
