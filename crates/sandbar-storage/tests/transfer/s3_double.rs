//! The part of S3 that packs use, on loopback and in memory.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use sandbar_storage::pack::{S3Target, Target};

type Response = hyper::Response<Full<Bytes>>;

const BUCKET: &str = "packs";

#[derive(Default)]
struct Content {
    objects: BTreeMap<String, Bytes>,
    /// Parts by upload and number.
    uploads: BTreeMap<String, BTreeMap<u32, Bytes>>,
    next_upload: u32,
}

/// A server that lives as long as the test.
pub(crate) struct S3Double {
    address: SocketAddr,
    content: Arc<Mutex<Content>>,
    _runtime: tokio::runtime::Runtime,
}

impl S3Double {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let content = Arc::new(Mutex::new(Content::default()));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = content.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                let service = service_fn(move |request| serve(shared.clone(), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, content, _runtime: runtime }
    }

    pub(crate) fn target(&self) -> Target {
        Target::S3(S3Target {
            bucket: BUCKET.into(),
            region: Some("us-east-1".into()),
            endpoint: Some(format!("http://{}", self.address)),
            access_key_id: Some("test-key".into()),
            secret_access_key: Some("test-secret".into()),
            allow_http: true,
        })
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.content.lock().unwrap().objects.keys().cloned().collect()
    }

    pub(crate) fn open_uploads(&self) -> usize {
        self.content.lock().unwrap().uploads.len()
    }
}

async fn serve(content: Arc<Mutex<Content>>, request: Request<Incoming>) -> Result<Response, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let signed = head.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !signed.starts_with("AWS4-HMAC-SHA256 Credential=test-key/") {
        return Ok(status(StatusCode::FORBIDDEN));
    }
    let uri = head.uri;
    let Some(rest) = uri.path().strip_prefix(&format!("/{BUCKET}")) else {
        return Ok(status(StatusCode::NOT_FOUND));
    };
    let key = rest.trim_start_matches('/').to_owned();
    let query: BTreeMap<String, String> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (name.to_owned(), value.replace("%2F", "/")))
        .collect();
    Ok(content.lock().unwrap().answer(head.method.as_str(), &key, &query, body))
}

impl Content {
    fn answer(&mut self, method: &str, key: &str, query: &BTreeMap<String, String>, body: Bytes) -> Response {
        let upload = query.get("uploadId").cloned();
        match (method, upload) {
            ("POST", None) if query.contains_key("uploads") => {
                self.next_upload += 1;
                self.uploads.insert(self.next_upload.to_string(), BTreeMap::new());
                xml(&format!(
                    "<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>",
                    self.next_upload
                ))
            }
            ("PUT", Some(upload)) => {
                let number: u32 = query["partNumber"].parse().unwrap();
                self.uploads.get_mut(&upload).unwrap().insert(number, body);
                object(Bytes::new(), &number.to_string())
            }
            ("POST", Some(upload)) => {
                let parts = self.uploads.remove(&upload).unwrap();
                self.objects.insert(key.to_owned(), parts.into_values().flatten().collect());
                xml("<CompleteMultipartUploadResult><ETag>\"x\"</ETag></CompleteMultipartUploadResult>")
            }
            ("DELETE", Some(upload)) => {
                self.uploads.remove(&upload);
                status(StatusCode::NO_CONTENT)
            }
            ("POST", None) if query.contains_key("delete") => {
                let text = String::from_utf8(body.to_vec()).unwrap();
                let mut deleted = String::new();
                for part in text.split("<Key>").skip(1) {
                    let key = part.split_once("</Key>").unwrap().0;
                    self.objects.remove(key);
                    deleted = deleted + "<Deleted><Key>" + key + "</Key></Deleted>";
                }
                xml(&format!("<DeleteResult>{deleted}</DeleteResult>"))
            }
            ("DELETE", None) => {
                self.objects.remove(key);
                status(StatusCode::NO_CONTENT)
            }
            ("PUT", None) => {
                self.objects.insert(key.to_owned(), body);
                object(Bytes::new(), "x")
            }
            ("GET", None) if query.contains_key("list-type") => {
                let prefix = query.get("prefix").cloned().unwrap_or_default();
                let found = self.objects.iter().filter(|(key, _)| key.starts_with(&prefix));
                let entries: String = found
                    .map(|(key, bytes)| {
                        let size = bytes.len();
                        format!("<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"x\"</ETag><Size>{size}</Size></Contents>")
                    })
                    .fold(String::new(), |all, one| all + &one);
                xml(&format!("<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"))
            }
            ("GET", None) => match self.objects.get(key) {
                Some(bytes) => object(bytes.clone(), "x"),
                None => status(StatusCode::NOT_FOUND),
            },
            _ => status(StatusCode::METHOD_NOT_ALLOWED),
        }
    }
}

fn xml(text: &str) -> Response {
    Response::new(Full::new(Bytes::from(text.to_owned())))
}

fn object(bytes: Bytes, tag: &str) -> Response {
    hyper::Response::builder()
        .header("etag", format!("\"{tag}\""))
        .header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        .body(Full::new(bytes))
        .unwrap()
}

fn status(code: StatusCode) -> Response {
    hyper::Response::builder().status(code).body(Full::default()).unwrap()
}
