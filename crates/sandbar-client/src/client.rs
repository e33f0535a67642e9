//! Connection to a host.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use connectrpc::{
    CompressionRegistry, ConnectError, Protocol,
    client::{ClientBody, ClientConfig, Http2Connection},
};
use http::{HeaderValue, Request, Response, Uri, uri::Scheme};
use hyper::body::Body;
use sandbar_core::{Error, ErrorCode, Result};
use sandbar_proto::{API_VERSION, API_VERSION_HEADER, MAX_MESSAGE_BYTES, from_connect, v1};
use tower::Service;

use crate::{TlsOptions, connector::Connector, transport::Transport};

/// Flow-control window of one HTTP/2 stream. A reader that stops blocks only its own stream.
const STREAM_WINDOW: u32 = 1 << 20;

/// Flow-control window of the connection, at its maximum: a stalled stream must not stall others.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of HTTP/2 pings on an idle connection, and the time to answer one.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Limit on calls that wait for the connection.
const CALL_QUEUE: usize = 1024;

/// Wire protocol of the calls. All carry the same messages, and a server accepts all of them on one
/// port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireProtocol {
    #[default]
    Connect,
    ConnectJson,
    Grpc,
    GrpcWeb,
}

/// Address, credentials and protocol of a connection.
#[derive(Clone, Default)]
pub struct ConnectOptions {
    /// For example `http://127.0.0.1:9100`, or `https://` with TLS.
    pub url: String,
    pub token: Option<String>,
    pub protocol: WireProtocol,
    /// Used for `https://` only.
    pub tls: TlsOptions,
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            url,
            token: _,
            protocol,
            tls,
        } = self;
        f.debug_struct("ConnectOptions")
            .field("url", url)
            .field("protocol", protocol)
            .field("tls", tls)
            .finish_non_exhaustive()
    }
}

/// Client of one host. Clones share its connection, which is re-established by the next call after
/// it broke.
#[derive(Clone)]
pub struct Client {
    pub(crate) rpc: Arc<v1::SandboxServiceClient<Transport>>,
    url: Arc<str>,
}

impl Client {
    /// Connects to the host at `url`, for example `http://127.0.0.1:9100`.
    ///
    /// `Unavailable` when the host does not answer. The token is checked by the first call.
    pub async fn connect(url: &str, token: Option<&str>) -> Result<Self> {
        Self::connect_with(url, token, WireProtocol::default()).await
    }

    /// Like [`connect`](Self::connect), with a choice of wire protocol.
    pub async fn connect_with(
        url: &str,
        token: Option<&str>,
        protocol: WireProtocol,
    ) -> Result<Self> {
        let (url, token) = (url.to_owned(), token.map(ToOwned::to_owned));
        Self::open(ConnectOptions {
            url,
            token,
            protocol,
            tls: TlsOptions::default(),
        })
        .await
    }

    /// Like [`connect`](Self::connect), with all options.
    pub async fn open(options: ConnectOptions) -> Result<Self> {
        let ConnectOptions {
            url,
            token,
            protocol,
            tls,
        } = options;
        let uri = parse_url(&url)?;
        let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
        let tls = if is_tls { Some(tls.load()?) } else { None };
        let connection = Http2Connection::builder()
            .establishment_timeout(CONNECT_TIMEOUT)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .connect_with_connector(Connector::new(tls.as_deref(), CONNECT_TIMEOUT), uri.clone())
            .await
            .map_err(|error| {
                if is_tls {
                    unreachable_over_tls(&url, &error)
                } else {
                    unreachable_server(&url, &error)
                }
            })?;
        let config = configure(uri, protocol, token.as_deref())?;
        let rpc = v1::SandboxServiceClient::new(
            Transport::Connection(connection.shared(CALL_QUEUE)),
            config,
        );
        Ok(Self {
            rpc: Arc::new(rpc),
            url: url.into(),
        })
    }

    /// Returns a client of an API in this process. Its calls pass the same checks, without a
    /// socket.
    ///
    /// `authorization` is sent unchanged as header of every call.
    pub fn in_process<S, B>(api: S, authorization: Option<HeaderValue>) -> Self
    where
        S: Service<Request<ClientBody>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let url = "http://in-process";
        let mut config = base_config(Uri::from_static(url), WireProtocol::Connect);
        if let Some(mut value) = authorization {
            value.set_sensitive(true);
            config = config.with_default_header(http::header::AUTHORIZATION, value);
        }
        let rpc = v1::SandboxServiceClient::new(Transport::in_process(api), config);
        Self {
            rpc: Arc::new(rpc),
            url: url.into(),
        }
    }

    /// Returns the URL of the host.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Restores the error that the host raised. An error without our detail came from the
    /// transport, and is reported as an unreachable host.
    pub(crate) fn restore(&self, error: &ConnectError) -> Error {
        let restored = from_connect(error);
        if restored.code() == ErrorCode::Unavailable && error.details.is_empty() {
            return unreachable_server(&self.url, error);
        }
        restored
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

fn configure(uri: Uri, protocol: WireProtocol, token: Option<&str>) -> Result<ClientConfig> {
    let config = base_config(uri, protocol);
    Ok(match token {
        Some(token) => config.with_default_header(http::header::AUTHORIZATION, bearer(token)?),
        None => config,
    })
}

fn base_config(uri: Uri, protocol: WireProtocol) -> ClientConfig {
    let config = ClientConfig::new(uri)
        .with_protocol(match protocol {
            WireProtocol::Connect | WireProtocol::ConnectJson => Protocol::Connect,
            WireProtocol::Grpc => Protocol::Grpc,
            WireProtocol::GrpcWeb => Protocol::GrpcWeb,
        })
        // No compression: hosts are close, and files compress badly or are small.
        .with_compression(CompressionRegistry::new())
        .with_default_max_message_size(MAX_MESSAGE_BYTES)
        .with_default_header(API_VERSION_HEADER, format!("v{API_VERSION}"));
    if protocol == WireProtocol::ConnectJson {
        config.json()
    } else {
        config
    }
}

/// Has another hint than [`unreachable_server`]: a failed handshake does not mean that no host
/// runs.
fn unreachable_over_tls(url: &str, error: &ConnectError) -> Error {
    Error::new(ErrorCode::Unavailable, format!("no TLS connection to a Sandbar host at {url}"))
        .with_hint(
            "check that the host serves TLS there, and set SANDBAR_CA_FILE to its CA if that is a private one",
        )
        .with_source(error.clone())
}

fn unreachable_server(url: &str, error: &ConnectError) -> Error {
    Error::new(
        ErrorCode::Unavailable,
        format!("no answer from a Sandbar host at {url}"),
    )
    .with_hint("start one with `sandbar up`")
    .with_source(error.clone())
}

/// Returns the error for a response without its content.
pub(crate) fn incomplete(what: &str) -> Error {
    Error::internal(format!("server response has no {what}"))
}

/// Converts the content of a response, which is an error without it.
pub(crate) fn required<M, T: TryFrom<M, Error = Error>>(
    what: &str,
    content: Option<M>,
) -> Result<T> {
    content.ok_or_else(|| incomplete(what))?.try_into()
}

fn parse_url(url: &str) -> Result<Uri> {
    let invalid = |problem: &str| {
        Error::invalid(
            "url",
            format!("server address `{}` {problem}", url.escape_debug()),
        )
        .with_hint(
            "use `http://HOST:PORT` or `https://HOST:PORT`, for example `http://127.0.0.1:9100`",
        )
    };
    let uri: Uri = url.parse().map_err(|_| invalid("is not a URL"))?;
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS => {}
        _ => return Err(invalid("does not begin with `http://` or `https://`")),
    }
    if uri
        .authority()
        .is_none_or(|authority| authority.host().is_empty())
    {
        return Err(invalid("has no host"));
    }
    Ok(uri)
}

fn bearer(token: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
        Error::invalid(
            "token",
            "access token has characters that are not allowed in a header",
        )
        .with_hint("copy it unchanged from `SANDBAR_TOKEN` or the token file")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_url_is_rejected_with_a_hint() {
        parse_url("http://127.0.0.1:9100").unwrap();
        parse_url("http://localhost:9100/").unwrap();
        parse_url("https://host.example:9100").unwrap();
        for bad in [
            "",
            "127.0.0.1:9100",
            "https://",
            "ftp://x",
            "http://",
            "/path",
            "no scheme",
        ] {
            let error = parse_url(bad).unwrap_err();
            assert_eq!(
                (error.code(), error.field()),
                (ErrorCode::InvalidArgument, Some("url")),
                "{bad}"
            );
            assert!(error.hint().is_some());
        }
    }

    #[test]
    fn token_that_is_no_header_value_is_rejected() {
        assert_eq!(bearer("a\nb").unwrap_err().field(), Some("token"));
        assert!(bearer("abc").unwrap().is_sensitive());
    }

    #[tokio::test]
    async fn missing_host_is_unavailable_with_a_hint_to_start_one() {
        // Bound and dropped, so that nothing listens there.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let error = Client::connect(&format!("http://127.0.0.1:{port}"), None)
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable);
        assert_eq!(error.hint(), Some("start one with `sandbar up`"));
    }
}
