//! Passing a request on to the server in the sandbox, and its answer back.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header},
};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sandbar_core::{Error, ErrorCode, Result};
use sandbar_host::PortConnection;

/// About one connection, not about the message.
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What opened the door is not for what is behind it.
const KEYS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-access-token"),
    HeaderName::from_static("x-api-key"),
    header::EXPECT,
];

/// Sends a request by a connection of its own, which is closed when the answer has been read, or nobody wants it any
/// more: the server interrupts then what it ran for it.
pub(super) async fn pass_on(connection: PortConnection, request: Request<Body>) -> Result<Response<Body>> {
    let outgoing = outgoing(request)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await.map_err(no_answer)?;
    tokio::spawn(async move {
        // Whoever waits for the answer hears of it as well.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a code interpreter ended early");
        }
    });
    let mut response = sender.send_request(outgoing).await.map_err(no_answer)?;
    remove(response.headers_mut(), &HOP_BY_HOP);
    Ok(response.map(Body::new))
}

fn outgoing(request: Request<Body>) -> Result<Request<Body>> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut outgoing = Request::new(body);
    *outgoing.uri_mut() = Uri::try_from(path)
        .map_err(|source| Error::invalid("uri", "the request is for no path").with_source(source))?;
    *outgoing.method_mut() = head.method;
    *outgoing.headers_mut() = head.headers;
    let headers = outgoing.headers_mut();
    remove(headers, &HOP_BY_HOP);
    remove(headers, &KEYS);
    headers.insert(header::HOST, HeaderValue::from_static("localhost:49999"));
    Ok(outgoing)
}

fn remove(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        headers.remove(name);
    }
}

fn no_answer(source: hyper::Error) -> Error {
    Error::new(ErrorCode::Unavailable, "the code interpreter gave no answer")
        .with_hint("it may have been ended, by lack of memory for example: try again")
        .with_source(source)
}
