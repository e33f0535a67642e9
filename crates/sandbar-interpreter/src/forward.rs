//! Forwarding one request to the server in the sandbox.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header},
};
use http_body_util::BodyExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sandbar_core::{Error, ErrorCode, Result};
use sandbar_host::PortConnection;
use tokio_util::task::AbortOnDropHandle;

/// Headers that belong to one connection, not to the message.
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers that stop at the host: the credentials of the caller must not reach the sandbox.
const NOT_FORWARDED: [HeaderName; 4] = [
    header::AUTHORIZATION,
    HeaderName::from_static("x-access-token"),
    HeaderName::from_static("x-api-key"),
    header::EXPECT,
];

/// Sends a request over a connection of its own. The response body owns the connection: dropping it
/// closes the connection, and the server then interrupts the code it runs for the request.
pub(crate) async fn forward(
    connection: PortConnection,
    request: Request<Body>,
) -> Result<Response<Body>> {
    let outgoing = outgoing(request)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection))
        .await
        .map_err(no_response)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "aborted when its owner is dropped"
    )]
    let driver = AbortOnDropHandle::new(tokio::spawn(async move {
        // The reader of the response gets the same error.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to a code interpreter ended early");
        }
    }));
    let mut response = sender.send_request(outgoing).await.map_err(no_response)?;
    remove(response.headers_mut(), &HOP_BY_HOP);
    Ok(response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _owned = &driver;
            frame
        }))
    }))
}

fn outgoing(request: Request<Body>) -> Result<Request<Body>> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut outgoing = Request::new(body);
    *outgoing.uri_mut() = Uri::try_from(path)
        .map_err(|source| Error::invalid("uri", "request URI has no path").with_source(source))?;
    *outgoing.method_mut() = head.method;
    *outgoing.headers_mut() = head.headers;
    let headers = outgoing.headers_mut();
    remove(headers, &HOP_BY_HOP);
    remove(headers, &NOT_FORWARDED);
    headers.insert(header::HOST, HeaderValue::from_static("localhost:49999"));
    Ok(outgoing)
}

fn remove(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        headers.remove(name);
    }
}

fn no_response(source: hyper::Error) -> Error {
    Error::new(
        ErrorCode::Unavailable,
        "code interpreter closed the connection without a response",
    )
    .with_hint("it may have been killed, for example by lack of memory; try again")
    .with_source(source)
}
