//! One POST, from its headers to its answer.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, future::join_all};
use http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts};
use sandbar_client::Client;
use sandbar_core::{Error, ErrorCode, SessionId};
use serde_json::Value;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    event_stream::event_stream,
    headers::{self, Accepts},
    origin,
};
use crate::{
    call_id::Conversation,
    in_flight::{InFlight, Ticket},
    jsonrpc::{self, Fault, Incoming, Message, Params, Refusal, Request, RequestId},
    meta::Meta,
    ports::PortNames,
    sandboxes::DefaultSandbox,
    server::{McpServer, Setting},
    tools::Catalogue,
    version::Version,
};

/// Largest body: what a message to the host may have.
const LARGEST_BODY: usize = 16 << 20;

/// What is read of a larger one.
const HEARD_OUT: usize = 4 * LARGEST_BODY;

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_mins(1);

/// Messages one batch may have.
const LARGEST_BATCH: usize = 100;

/// Messages that may wait for a client that is slow to read.
const QUEUE: usize = 16;

/// What tells a request under way from all others: who sent it, in which conversation, under which id.
type Key = (Option<blake3::Hash>, Conversation, RequestId);

/// The path MCP is served on.
#[derive(Clone, Debug, Default)]
pub struct HttpEndpoint {
    catalogue: Catalogue,
    in_flight: Arc<InFlight<Key>>,
}

/// Why a request gets no answer of the protocol's own, or a bad one.
struct Rejection(StatusCode, Value);

impl Rejection {
    fn new(status: StatusCode, fault: &Fault) -> Self {
        Self(status, jsonrpc::failed(None, fault))
    }

    /// The request is no request of the protocol.
    fn plain(status: StatusCode, why: &str) -> Self {
        Self::new(status, &Fault::new(Fault::INVALID_REQUEST, why))
    }
}

impl HttpEndpoint {
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers a request. `client` is the caller's, with what they may do; they have been let in already.
    pub async fn answer(&self, request: http::Request<Body>, client: Client, ports: PortNames) -> Response {
        let (head, body) = request.into_parts();
        match self.serve(&head, body, client, ports).await {
            Ok(response) => response,
            Err(Rejection(status, message)) => {
                let mut response = reply(status, &message);
                if status == StatusCode::METHOD_NOT_ALLOWED {
                    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
                }
                response
            }
        }
    }

    /// Refuses somebody who was not let in, in words their program reads.
    pub fn refuse(error: &Error) -> Response {
        let status = match error.code() {
            ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
            ErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
            _ => StatusCode::BAD_REQUEST,
        };
        let fault = Fault { data: error.hint().map(Value::from), ..Fault::new(Fault::INVALID_REQUEST, error.chain()) };
        let mut response = reply(status, &jsonrpc::failed(None, &fault));
        if status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer realm=\"sandbar\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }

    async fn serve(&self, head: &Parts, body: Body, client: Client, ports: PortNames) -> Result<Response, Rejection> {
        let Parts { method, headers, uri, .. } = head;
        if !origin::is_trusted(headers) {
            return Err(Rejection::plain(StatusCode::FORBIDDEN, "pages of this origin may not call"));
        }
        if *method != Method::POST {
            let why = "messages are sent by POST; there are no sessions to listen to or to end";
            return Err(Rejection::plain(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        if !headers::is_json(headers) {
            let why = "the body is not said to be `application/json`";
            return Err(Rejection::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        let accepts = Accepts::read(headers);
        if !accepts.json && !accepts.events {
            let why = "accept `application/json` and `text/event-stream`";
            return Err(Rejection::plain(StatusCode::NOT_ACCEPTABLE, why));
        }
        let said = headers::version(headers).map_err(|fault| Rejection::new(StatusCode::BAD_REQUEST, &fault))?;
        let server = McpServer::new(client, default_sandbox(uri)?, ports).sharing(&self.catalogue);
        let body = read_body(body).await?;
        let visit = Visit {
            server,
            said,
            accepts,
            caller: caller(headers),
            conversation: headers::conversation(headers),
            in_flight: Arc::clone(&self.in_flight),
        };
        match jsonrpc::read(&body) {
            Incoming::One(Ok(Message::Request(request))) => visit.one(headers, request).await,
            Incoming::One(Ok(message)) => {
                visit.note(&message);
                Ok(StatusCode::ACCEPTED.into_response())
            }
            Incoming::One(Err(refusal)) => Err(Rejection(StatusCode::BAD_REQUEST, refusal.to_json())),
            Incoming::Batch(messages) => visit.batch(messages).await,
        }
    }
}

/// Who calls. Kept as a hash: nothing that opens the host lies around here.
fn caller(headers: &HeaderMap) -> Option<blake3::Hash> {
    headers.get(header::AUTHORIZATION).map(|field| blake3::hash(field.as_bytes()))
}

/// The sandbox the address names: `/mcp?sandbox=ID`.
fn default_sandbox(uri: &Uri) -> Result<DefaultSandbox, Rejection> {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let Some(id) = pairs.find_map(|pair| pair.strip_prefix("sandbox=")) else { return Ok(DefaultSandbox::nothing()) };
    let id = SessionId::new(id).map_err(|error| Rejection::plain(StatusCode::BAD_REQUEST, error.message()))?;
    Ok(DefaultSandbox::given(id))
}

/// Reads a body. One that is too large is heard out for a while: its sender listens only when it has said everything.
async fn read_body(body: Body) -> Result<Vec<u8>, Rejection> {
    let mut body = body.into_data_stream();
    let mut read = Vec::new();
    let mut length = 0;
    let listening = async {
        while let Some(bytes) = body.next().await {
            let bytes = bytes.map_err(|_| Rejection::plain(StatusCode::BAD_REQUEST, "the body broke off"))?;
            length += bytes.len();
            if length <= LARGEST_BODY {
                read.extend_from_slice(&bytes);
            } else if length > HEARD_OUT {
                break;
            }
        }
        Ok(())
    };
    timeout(PATIENCE, listening)
        .await
        .map_err(|_| Rejection::plain(StatusCode::REQUEST_TIMEOUT, "the body takes too long"))??;
    if length > LARGEST_BODY {
        let why = format!("the message is longer than {LARGEST_BODY} bytes");
        return Err(Rejection::plain(StatusCode::PAYLOAD_TOO_LARGE, &why));
    }
    Ok(read)
}

fn reply(status: StatusCode, message: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], message.to_string()).into_response()
}

/// One POST.
struct Visit {
    server: McpServer,
    /// The version the headers name.
    said: Option<Version>,
    accepts: Accepts,
    caller: Option<blake3::Hash>,
    conversation: Option<Conversation>,
    in_flight: Arc<InFlight<Key>>,
}

impl Visit {
    async fn one(self, headers: &HeaderMap, request: Request) -> Result<Response, Rejection> {
        let version = headers::agree(headers, self.said, &request).map_err(|fault| {
            // Before 2026-07-28 an error is an answer like any other; its clients do not look into a bad one.
            let modern = matches!(fault.code, Fault::HEADER_MISMATCH | Fault::UNSUPPORTED_VERSION)
                || self.said.is_some_and(Version::is_stateless);
            let status = if modern { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            Rejection(status, jsonrpc::failed(Some(&request.id), &fault))
        })?;
        let starts = request.method == "initialize" && !version.is_stateless();
        let wants_progress = Meta::read(&request.params).is_ok_and(|meta| meta.progress_token.is_some());
        let admitted = self.admit(request);
        let mut response = if self.accepts.events && (wants_progress || !self.accepts.json) {
            self.stream(version, vec![admitted], Vec::new())
        } else {
            let (request, ticket) = admitted;
            let Some(outcome) = self.work(version, &request, &ticket, None).await else {
                // A cancelled request is not answered; its sender takes an answer for one it did not ask for.
                return Ok(StatusCode::ACCEPTED.into_response());
            };
            reply(status_of(&outcome, version), &jsonrpc::answer(&request.id, &outcome))
        };
        if starts && let Ok(name) = Conversation::new().as_str().parse() {
            response.headers_mut().insert(headers::SESSION, name);
        }
        Ok(response)
    }

    /// Several messages at once.
    async fn batch(self, messages: Vec<Result<Message, Refusal>>) -> Result<Response, Rejection> {
        let version = self.said.unwrap_or(Version::UNSAID);
        if !version.has_batches() {
            let why = "this version of the protocol has no batches";
            return Err(Rejection::plain(StatusCode::BAD_REQUEST, why));
        }
        if messages.len() > LARGEST_BATCH {
            return Err(Rejection::plain(StatusCode::BAD_REQUEST, "the batch is too large"));
        }
        let (mut refused, mut admitted) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                Ok(Message::Request(request)) if is_stateless(&request) => {
                    let fault = Fault::new(Fault::INVALID_REQUEST, "this version of the protocol has no batches");
                    refused.push(jsonrpc::failed(Some(&request.id), &fault));
                }
                Ok(Message::Request(request)) => admitted.push(self.admit(request)),
                Ok(message) => self.note(&message),
                Err(refusal) => refused.push(refusal.to_json()),
            }
        }
        if admitted.is_empty() && refused.is_empty() {
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        let wants_progress = admitted
            .iter()
            .any(|(request, _)| Meta::read(&request.params).is_ok_and(|meta| meta.progress_token.is_some()));
        if self.accepts.events && (wants_progress || !self.accepts.json) {
            return Ok(self.stream(version, admitted, refused));
        }
        let work = admitted.iter().map(|(request, ticket)| async {
            let outcome = self.work(version, request, ticket, None).await?;
            Some(jsonrpc::answer(&request.id, &outcome))
        });
        refused.extend(join_all(work).await.into_iter().flatten());
        Ok(reply(StatusCode::OK, &refused.into()))
    }

    /// Gives a request its place, under which it can be cancelled.
    fn admit(&self, request: Request) -> (Arc<Request>, Ticket<Key>) {
        let request = Arc::new(request);
        // A request of no conversation is nobody's to cancel but by hanging up.
        let conversation = self.conversation.clone().unwrap_or_else(Conversation::new);
        let key = (self.caller, conversation, request.id.clone());
        let ticket = self.in_flight.enter(key, &request, &CancellationToken::new());
        (request, ticket)
    }

    /// The outcome of a request; none when it was cancelled.
    async fn work(
        &self,
        version: Version,
        request: &Request,
        ticket: &Ticket<Key>,
        outgoing: Option<&mpsc::Sender<Value>>,
    ) -> Option<Result<Value, Fault>> {
        let setting = Setting { version, conversation: self.conversation.as_ref(), outgoing };
        ticket.unless_cancelled(self.server.respond(request, setting)).await
    }

    /// Answers with a stream of what happens.
    fn stream(self, version: Version, admitted: Vec<(Arc<Request>, Ticket<Key>)>, first: Vec<Value>) -> Response {
        let (outgoing, messages) = mpsc::channel(QUEUE);
        let work = tokio::spawn(async move {
            for message in first {
                let _ = outgoing.send(message).await;
            }
            let work = admitted.iter().map(|(request, ticket)| async {
                if let Some(outcome) = self.work(version, request, ticket, Some(&outgoing)).await {
                    let _ = outgoing.send(jsonrpc::answer(&request.id, &outcome)).await;
                }
            });
            join_all(work).await;
        });
        event_stream(messages, AbortOnDropHandle::new(work))
    }

    fn note(&self, message: &Message) {
        if let Message::Notification { method, params } = message
            && method == "notifications/cancelled"
        {
            self.cancel(params);
        }
    }

    fn cancel(&self, params: &Params) {
        let id = params.get("requestId").and_then(RequestId::read);
        if let Some((conversation, id)) = self.conversation.clone().zip(id) {
            self.in_flight.cancel(&(self.caller, conversation, id));
        }
    }
}

fn is_stateless(request: &Request) -> bool {
    Meta::read(&request.params).is_ok_and(|meta| meta.version.is_some_and(Version::is_stateless))
}

/// A method that is not there is not found, where the version says so.
fn status_of(outcome: &Result<Value, Fault>, version: Version) -> StatusCode {
    match outcome {
        Err(fault) if version.is_stateless() && fault.code == Fault::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}
