//! One POST, from its headers to its answer.

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
use crate::{call_id::Conversation, ports::PortNames, sandboxes::DefaultSandbox, server::McpServer, tools::Catalogue};

/// Largest body: what a message to the host may have.
const MAX_BODY_BYTES: usize = 16 << 20;

/// How much of a larger body is read: its sender reads the refusal only when it has sent everything.
const MAX_DISCARDED_BYTES: usize = 4 * MAX_BODY_BYTES;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// Names the conversation.
const SESSION: &str = "mcp-session-id";

/// Status and error of a request that is refused before `rmcp` sees it.
struct Refusal(StatusCode, Value);

/// The path MCP is served on.
#[derive(Clone, Debug, Default)]
pub struct HttpEndpoint {
    catalogue: Catalogue,
    in_flight: InFlight,
}

impl HttpEndpoint {
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers a request. `client` is the caller's, with what they may do; they have been let in already.
    pub async fn answer(&self, request: http::Request<Body>, client: Client, ports: PortNames) -> Response {
        let (head, body) = request.into_parts();
        self.serve(head, body, client, ports).await.unwrap_or_else(|Refusal(status, error)| reply(status, &error))
    }

    /// Refuses a caller that was not let in.
    pub fn refuse(error: &Error) -> Response {
        let status = match error.code() {
            sandbar_core::ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
            sandbar_core::ErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
            _ => StatusCode::BAD_REQUEST,
        };
        let mut message = json!({"code": ErrorCode::INVALID_REQUEST.0, "message": error.chain()});
        if let Some(hint) = error.hint() {
            message["data"] = hint.into();
        }
        let mut response = reply(status, &message);
        if status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer realm=\"sandbar\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }

    async fn serve(&self, mut head: Parts, body: Body, client: Client, ports: PortNames) -> Result<Response, Refusal> {
        if !origin::is_trusted(&head.headers) {
            return Err(refusal(StatusCode::FORBIDDEN, "pages of this origin may not call"));
        }
        let default = default_sandbox(&head.uri)?;
        let is_post = head.method == Method::POST;
        if is_post && !is_json(&head.headers) {
            let why = "the body is not said to be `application/json`";
            return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        let takes_events = accept::widen(&mut head.headers);
        let body = if is_post { read_body(body).await? } else { Bytes::new() };
        let message = if is_post { read_message(&body)? } else { Value::Null };
        let conversation = conversation(&head.headers);
        let key = |id| Key::new(&head.headers, conversation.as_ref(), id);
        if message["method"] == "notifications/cancelled"
            && let Some(key) = key(message["params"].get("requestId"))
        {
            self.in_flight.cancel(&key);
        }
        let request = key(message.get("id")).map(|key| self.in_flight.enter(key));
        let wants_progress = message["params"]["_meta"].get("progressToken").is_some();
        let starts = message["method"] == "initialize";
        let mut server = McpServer::new(client, default, ports).sharing(&self.catalogue).within(conversation);
        if !takes_events {
            server = server.without_progress();
        }
        let service = StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::new(NeverSessionManager::default()),
            config(wants_progress && takes_events),
        );
        let cancelled = request.as_ref().map(|request| request.cancelled()).unwrap_or_default();
        // A cancelled request is not answered. Dropping what answers it ends its command.
        let answering = service.handle(http::Request::from_parts(head, Body::from(body)));
        let Some(answer) = cancelled.run_until_cancelled(answering).await else {
            return Ok(StatusCode::ACCEPTED.into_response());
        };
        if is_post && answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return Err(refusal(StatusCode::BAD_REQUEST, "the message is no JSON-RPC 2.0 message of MCP"));
        }
        let mut answer = answer.map(Body::new);
        if answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
            answer = answer.map(|body| {
                // It has its place among the requests under way until the last event.
                let events = body.into_data_stream().take_until(cancelled.cancelled_owned());
                Body::from_stream(events.inspect(move |_| {
                    let _ = &request;
                }))
            });
        } else if starts
            && answer.status() == StatusCode::OK
            && let Ok(name) = Conversation::new().as_str().parse()
        {
            answer.headers_mut().insert(SESSION, name);
        }
        Ok(answer)
    }
}

/// No state hangs on a session of the protocol. The name by which the host is called is not checked: it may be any (a
/// name server's, a proxy's, an address with `--listen 0.0.0.0`), every call needs a token, and pages of other origins
/// are refused before.
fn config(streams: bool) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(!streams)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .disable_allowed_hosts()
}

/// Whether the body is said to be JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The conversation a request is said to belong to.
fn conversation(headers: &HeaderMap) -> Option<Conversation> {
    Conversation::named(headers.get(SESSION)?.to_str().ok()?)
}

/// The sandbox the address names: `/mcp?sandbox=ID`.
fn default_sandbox(uri: &Uri) -> Result<DefaultSandbox, Refusal> {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let Some(id) = pairs.find_map(|pair| pair.strip_prefix("sandbox=")) else { return Ok(DefaultSandbox::nothing()) };
    let id = SessionId::new(id).map_err(|error| refusal(StatusCode::BAD_REQUEST, error.message()))?;
    Ok(DefaultSandbox::given(id))
}

async fn read_body(body: Body) -> Result<Bytes, Refusal> {
    let mut body = body.into_data_stream();
    let mut read = Vec::new();
    let mut length = 0;
    let reading = async {
        while let Some(bytes) = body.next().await {
            let bytes = bytes.map_err(|_| refusal(StatusCode::BAD_REQUEST, "the body broke off"))?;
            length += bytes.len();
            if length <= MAX_BODY_BYTES {
                read.extend_from_slice(&bytes);
            } else if length > MAX_DISCARDED_BYTES {
                break;
            }
        }
        Ok(())
    };
    timeout(BODY_TIMEOUT, reading)
        .await
        .map_err(|_| refusal(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive"))??;
    if length > MAX_BODY_BYTES {
        let why = format!("the message is longer than {MAX_BODY_BYTES} bytes");
        return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &why));
    }
    Ok(read.into())
}

fn read_message(body: &[u8]) -> Result<Value, Refusal> {
    match serde_json::from_slice(body) {
        Ok(message @ Value::Object(_)) => Ok(message),
        Ok(_) => Err(refusal(StatusCode::BAD_REQUEST, "a message is a JSON object; batches are not supported")),
        Err(error) => {
            let message = format!("the body is not JSON: {error}");
            Err(Refusal(StatusCode::BAD_REQUEST, json!({"code": ErrorCode::PARSE_ERROR.0, "message": message})))
        }
    }
}

/// The refusal of something that is no request of the protocol.
fn refusal(status: StatusCode, why: &str) -> Refusal {
    Refusal(status, json!({"code": ErrorCode::INVALID_REQUEST.0, "message": why}))
}

fn reply(status: StatusCode, error: &Value) -> Response {
    let message = json!({"jsonrpc": "2.0", "error": error});
    (status, [(header::CONTENT_TYPE, "application/json")], message.to_string()).into_response()
}
