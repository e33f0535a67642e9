//! HTTP, with and without TLS: pages, DNS by HTTPS, and connections that become something else.

use std::{convert::Infallible, net::SocketAddr};

use http_body_util::{BodyExt, Collected, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header,
    service::service_fn,
    upgrade::Upgraded,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{dns_server, serve::Servers};

pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    at: SocketAddr,
    servers: Servers,
) {
    let service = service_fn(move |request| {
        let servers = servers.clone();
        async move { Ok::<_, Infallible>(respond(request, at, &servers).await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    // A peer may close the connection at any time.
    let _ = builder
        .serve_connection_with_upgrades(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    mut request: Request<Incoming>,
    at: SocketAddr,
    servers: &Servers,
) -> Response<Full<Bytes>> {
    let host = host_of(&request);
    let mut words = format!(
        "{} {} {:?}",
        request.method(),
        request.uri(),
        request.version()
    );
    for (name, value) in request.headers() {
        words.extend([
            "\n",
            name.as_str(),
            ": ",
            &String::from_utf8_lossy(value.as_bytes()),
        ]);
    }
    if request.headers().contains_key(header::UPGRADE) {
        servers.log.write(at, Some(&host), words);
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            if let Ok(connection) = upgrade.await {
                echo(connection).await;
            }
        });
        let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        return response
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, request.headers()[header::UPGRADE].clone())
            .body(Full::default())
            .unwrap();
    }
    let path = request.uri().path().to_owned();
    let body = request
        .into_body()
        .collect()
        .await
        .map(Collected::to_bytes)
        .unwrap_or_default();
    words.extend(["\n\n", &String::from_utf8_lossy(&body)]);
    servers.log.write(at, Some(&host), words);
    if path == "/dns-query" {
        let reply = dns_server::reply(&body, at, servers).unwrap_or_default();
        return Response::builder()
            .header("content-type", "application/dns-message")
            .body(reply.into())
            .unwrap();
    }
    let page = servers.pages.find(&host, &path);
    let mut response = Response::builder().status(page.status);
    for (name, value) in &page.headers {
        response = response.header(name, value);
    }
    response.body(page.body.into()).unwrap()
}

/// The host a request is for, without its port.
fn host_of(request: &Request<Incoming>) -> String {
    let of_header = || {
        request
            .headers()
            .get(header::HOST)
            .and_then(|value| value.to_str().ok())
    };
    let authority = request
        .uri()
        .authority()
        .map(hyper::http::uri::Authority::as_str)
        .or_else(of_header);
    let authority = authority.unwrap_or_default();
    let host = if authority.starts_with('[') {
        authority
    } else {
        authority.split(':').next().unwrap_or_default()
    };
    host.to_ascii_lowercase()
}

async fn echo(connection: Upgraded) {
    let mut connection = TokioIo::new(connection);
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = connection.read(&mut buffer).await {
        if connection.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
