//! HTTP endpoint: handling of one POST.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts};
use rmcp::{
    model::ErrorCode,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use sandbar_client::Client;
use sandbar_core::{Error, SessionId};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    accept,
    in_flight::{InFlight, Key},
    origin,
};
use crate::{
    call_id::McpSession, ports::PortNames, sandboxes::DefaultSandbox, server::McpServer,
    tools::Catalogue,
};

/// Largest body, the same as the message limit of the host.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Bytes of a larger body that are read: many clients read the error only after they sent the body.
const MAX_DRAIN_BYTES: usize = 4 * MAX_BODY_BYTES;

/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// Header with the MCP session id.
const SESSION_HEADER: &str = "mcp-session-id";

/// Status and error of a request that is rejected before `rmcp` sees it.
struct Rejection(StatusCode, Value);

/// HTTP endpoint of MCP.
#[derive(Clone, Debug, Default)]
pub struct HttpEndpoint {
    catalogue: Catalogue,
    in_flight: InFlight,
}

impl HttpEndpoint {
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles a request of an authenticated caller. `client` has the caller's token.
    pub async fn answer(
        &self,
        request: http::Request<Body>,
        client: Client,
        ports: PortNames,
    ) -> Response {
        let (head, body) = request.into_parts();
        self.serve(head, body, client, ports)
            .await
            .unwrap_or_else(|Rejection(status, error)| reply(status, &error))
    }

    /// Returns the response to a caller that failed authentication.
    pub fn reject(error: &Error) -> Response {
        let status = match error.code() {
            sandbar_core::ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
            sandbar_core::ErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
            sandbar_core::ErrorCode::TooManyCalls => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::BAD_REQUEST,
        };
        let mut message = json!({"code": ErrorCode::INVALID_REQUEST.0, "message": error.chain()});
        if let Some(hint) = error.hint() {
            message["data"] = hint.into();
        }
        let mut response = reply(status, &message);
        if status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer realm=\"sandbar\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }

    async fn serve(
        &self,
        mut head: Parts,
        body: Body,
        client: Client,
        ports: PortNames,
    ) -> Result<Response, Rejection> {
        if !origin::is_trusted(&head.headers) {
            return Err(rejection(StatusCode::FORBIDDEN, "origin not allowed"));
        }
        let default = default_sandbox(&head.uri)?;
        let is_post = head.method == Method::POST;
        if is_post && !is_json(&head.headers) {
            let reason = "`content-type` is not `application/json`";
            return Err(rejection(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
        }
        let accepts_events = accept::widen(&mut head.headers);
        let body = if is_post {
            read_body(body).await?
        } else {
            Bytes::new()
        };
        let message = if is_post {
            read_message(&body)?
        } else {
            Value::Null
        };
        let mcp_session = mcp_session(&head.headers);
        let key = |id| Key::new(&head.headers, mcp_session.as_ref(), id);
        if message["method"] == "notifications/cancelled"
            && let Some(key) = key(message["params"].get("requestId"))
        {
            self.in_flight.cancel(&key);
        }
        let request = key(message.get("id")).map(|key| self.in_flight.register(key));
        let wants_progress = message["params"]["_meta"].get("progressToken").is_some();
        let is_initialize = message["method"] == "initialize";
        let mut server = McpServer::new(client, default, ports)
            .with_catalogue(&self.catalogue)
            .with_session(mcp_session);
        if !accepts_events {
            server = server.without_progress();
        }
        let service = StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::new(NeverSessionManager::default()),
            config(wants_progress && accepts_events),
        );
        let cancelled = request
            .as_ref()
            .map(|request| request.cancelled())
            .unwrap_or_default();
        // A cancelled request has no response. Dropping its future ends the command.
        let answering = service.handle(http::Request::from_parts(head, Body::from(body)));
        let Some(answer) = cancelled.run_until_cancelled(answering).await else {
            return Ok(StatusCode::ACCEPTED.into_response());
        };
        if is_post && answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return Err(rejection(
                StatusCode::BAD_REQUEST,
                "body is not a JSON-RPC 2.0 message of MCP",
            ));
        }
        let mut answer = answer.map(Body::new);
        if answer
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind == "text/event-stream")
        {
            answer = answer.map(|body| {
                // Keeps the request registered until the last event.
                let events = body
                    .into_data_stream()
                    .take_until(cancelled.cancelled_owned());
                Body::from_stream(events.inspect(move |_| {
                    let _ = &request;
                }))
            });
        } else if is_initialize
            && answer.status() == StatusCode::OK
            && let Ok(name) = McpSession::new().as_str().parse()
        {
            answer.headers_mut().insert(SESSION_HEADER, name);
        }
        Ok(answer)
    }
}

/// Configures `rmcp` without sessions. The `host` header is not checked: any name may lead here
/// (DNS, a proxy, an address with `--listen 0.0.0.0`), every call needs a token, and foreign
/// origins are rejected before.
fn config(streams: bool) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(!streams)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .disable_allowed_hosts()
}

/// Reports whether `content-type` is JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    kind.split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Returns the MCP session that a request names.
fn mcp_session(headers: &HeaderMap) -> Option<McpSession> {
    McpSession::named(headers.get(SESSION_HEADER)?.to_str().ok()?)
}

/// Returns the default sandbox from the query: `/mcp?sandbox=ID`.
fn default_sandbox(uri: &Uri) -> Result<DefaultSandbox, Rejection> {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let Some(id) = pairs.find_map(|pair| pair.strip_prefix("sandbox=")) else {
        return Ok(DefaultSandbox::nothing());
    };
    let id =
        SessionId::new(id).map_err(|error| rejection(StatusCode::BAD_REQUEST, error.message()))?;
    Ok(DefaultSandbox::given(id))
}

async fn read_body(body: Body) -> Result<Bytes, Rejection> {
    let mut body = body.into_data_stream();
    let mut read = Vec::new();
    let mut length = 0;
    let reading = async {
        while let Some(bytes) = body.next().await {
            let bytes = bytes
                .map_err(|_| rejection(StatusCode::BAD_REQUEST, "request body is truncated"))?;
            length += bytes.len();
            if length <= MAX_BODY_BYTES {
                read.extend_from_slice(&bytes);
            } else if length > MAX_DRAIN_BYTES {
                break;
            }
        }
        Ok(())
    };
    timeout(BODY_TIMEOUT, reading).await.map_err(|_| {
        rejection(
            StatusCode::REQUEST_TIMEOUT,
            "request body was not received in time",
        )
    })??;
    if length > MAX_BODY_BYTES {
        let reason = format!("message is longer than {MAX_BODY_BYTES} bytes");
        return Err(rejection(StatusCode::PAYLOAD_TOO_LARGE, &reason));
    }
    Ok(read.into())
}

fn read_message(body: &[u8]) -> Result<Value, Rejection> {
    match serde_json::from_slice(body) {
        Ok(message @ Value::Object(_)) => Ok(message),
        Ok(_) => Err(rejection(
            StatusCode::BAD_REQUEST,
            "message is not a JSON object; batches are not supported",
        )),
        Err(error) => {
            let message = format!("body is not JSON: {error}");
            Err(Rejection(
                StatusCode::BAD_REQUEST,
                json!({"code": ErrorCode::PARSE_ERROR.0, "message": message}),
            ))
        }
    }
}

/// Returns the rejection of an invalid request.
fn rejection(status: StatusCode, reason: &str) -> Rejection {
    Rejection(
        status,
        json!({"code": ErrorCode::INVALID_REQUEST.0, "message": reason}),
    )
}

fn reply(status: StatusCode, error: &Value) -> Response {
    let message = json!({"jsonrpc": "2.0", "error": error});
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        message.to_string(),
    )
        .into_response()
}
