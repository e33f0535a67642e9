//! The surface as one service: what it stands on, and who answers what.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, HttpBody as _},
    response::IntoResponse,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use sandbar_core::Actor;
use sandbar_host::{Host, acting_as};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    Keyring, Place,
    answer::{ControlError, sandbox_not_found},
    control::{self, Sampler, Samples},
    cors,
    envd::{
        self,
        files::{self, FilesQuery},
    },
    hearing::hear_out,
    interpreter::{self, Interpreters},
    keys::{self, Holder},
    links::Links,
    place::NamedBy,
    reach::Reach,
    templates::{self, LazyTemplates},
    turns::Turns,
    visitor::{self, Door, Visitor},
};

/// Carries the API key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// What every part stands on.
#[derive(Debug)]
pub(crate) struct Surface {
    pub(crate) host: Arc<Host>,
    pub(crate) keyring: Arc<dyn Keyring>,
    pub(crate) turns: Turns,
    pub(crate) samples: Samples,
    pub(crate) interpreters: Interpreters,
    pub(crate) templates: LazyTemplates,
    pub(crate) links: Links,
    /// How long who makes a sandbox waits for the program of its template.
    pub(crate) ready_wait: Duration,
    /// Cancelled when the server stops: streams are not waited for.
    pub(crate) shutdown: CancellationToken,
}

/// The E2B surface of a host.
#[derive(Clone, Debug)]
pub struct E2b {
    pub(crate) surface: Arc<Surface>,
    control: Router,
    envd: Router,
    uploads: Router,
    _sampler: Arc<Sampler>,
}

impl E2b {
    /// How long who makes a sandbox waits for the program of its template, when nobody says otherwise. SDKs give up after
    /// a minute.
    pub const READY_WAIT: Duration = Duration::from_secs(45);

    /// Called inside a Tokio runtime: what sandboxes use is measured from now on.
    pub fn new(host: Arc<Host>, keyring: Arc<dyn Keyring>, ready_wait: Duration, shutdown: CancellationToken) -> Self {
        let surface = Arc::new(Surface {
            host,
            keyring,
            turns: Turns::default(),
            samples: Samples::default(),
            interpreters: Interpreters::default(),
            templates: LazyTemplates::default(),
            links: Links::default(),
            ready_wait,
            shutdown,
        });
        interpreter::keep_running(&surface);
        Self {
            control: control::router(&surface),
            envd: envd::router(&surface),
            uploads: templates::uploads_router(&surface),
            _sampler: Arc::new(Sampler::start(&surface)),
            surface,
        }
    }

    /// Answers a request that is for the surface.
    pub async fn answer(self, place: Place, request: Request<Body>, peer: IpAddr) -> Response<Body> {
        // Where everybody may do everything, no page of anybody's is let in.
        let is_open = self.surface.keyring.is_open();
        if !is_open && let Some(answer) = cors::preflight(request.method(), request.headers()) {
            return answer;
        }
        let method = request.method().clone();
        let mut answer = self.serve(place, request, peer).await;
        say_when_empty(&method, &mut answer);
        if !is_open {
            cors::allow(answer.headers_mut());
        }
        answer
    }

    async fn serve(self, place: Place, request: Request<Body>, peer: IpAddr) -> Response<Body> {
        match place {
            Place::Control => self.answer_control(request, peer).await,
            Place::Health if !is_by_token(request.headers()) => self.answer_control(request, peer).await,
            Place::Agent | Place::Health => {
                let (head, body) = request.into_parts();
                let visitor = self.visit_by_token(&head).await;
                self.answer_visitor(visitor, Request::from_parts(head, body), peer).await
            }
            Place::Upload => route(self.uploads, request).await,
            Place::Envd { sandbox, named_by } => {
                let (head, body) = request.into_parts();
                let visitor = self.visit(&sandbox, named_by, &head).await;
                self.answer_visitor(visitor, Request::from_parts(head, body), peer).await
            }
            Place::Files => {
                let (head, body) = request.into_parts();
                let visitor = self.visit_signed(&head).await;
                self.answer_visitor(visitor, Request::from_parts(head, body), peer).await
            }
            Place::Interpreter { sandbox, named_by } => {
                let caller = (named_by, interpreter::door(request.uri().path()));
                let visitor = match visitor::admit(&self.surface, &sandbox, caller, request.headers()).await {
                    Ok(visitor) => visitor,
                    Err(answer) => return hear_out(request, answer).await,
                };
                let answering = self.surface.interpreters.answer(&self.surface.host, &visitor, request);
                acting_as(actor(&visitor.holder, peer), answering).await
            }
        }
    }
}

impl E2b {
    async fn answer_control(self, mut request: Request<Body>, peer: IpAddr) -> Response<Body> {
        let key = request.headers().get(&API_KEY).map(HeaderValue::as_bytes);
        let holder = match keys::identify(&*self.surface.keyring, key) {
            Ok(holder) => holder,
            Err(error) => return hear_out(request, ControlError::from(error).into_response()).await,
        };
        let actor = actor(&holder, peer);
        let reach = Reach::of(&request, self.surface.host.ingress_domain());
        request.extensions_mut().insert(reach);
        request.extensions_mut().insert(holder);
        acting_as(actor, route(self.control, request)).await
    }

    /// Lets a request into envd of a sandbox.
    async fn visit(&self, sandbox: &str, named_by: NamedBy, head: &Parts) -> Result<Visitor, Response<Body>> {
        if head.uri.path() != files::PATH {
            // Who shows a token shows the right one.
            let shows_nothing = !head.headers.contains_key(&visitor::ACCESS_TOKEN);
            let is_anybodys = head.uri.path() == envd::HEALTH && shows_nothing;
            let door = if is_anybodys { Door::LikePorts } else { Door::Guarded };
            return visitor::admit(&self.surface, sandbox, (named_by, door), &head.headers).await;
        }
        let query = FilesQuery::of(&head.uri).map_err(IntoResponse::into_response)?;
        let door = Door::Signed { query: &query, method: &head.method };
        visitor::admit(&self.surface, sandbox, (named_by, door), &head.headers).await
    }

    /// Lets a request into envd of the sandbox whose token it was signed with.
    async fn visit_signed(&self, head: &Parts) -> Result<Visitor, Response<Body>> {
        let query = FilesQuery::of(&head.uri).map_err(IntoResponse::into_response)?;
        let found = self.surface.signer(&query, &head.method, &head.headers).await;
        let Some(sandbox) = found.map_err(|error| ControlError::from(error).into_response())? else {
            let is_signed = query.signature.is_some();
            let why = if is_signed { "invalid signature" } else { "missing signature query parameter" };
            return Err(ControlError::new(StatusCode::UNAUTHORIZED, why).into_response());
        };
        // Whatever name it was sent to, it has shown what it takes.
        self.visit(sandbox.as_str(), NamedBy::AnyName, head).await
    }

    /// Lets a request into envd of the sandbox whose access token it carries. Where one URL is that of all sandboxes, the
    /// JavaScript SDK up to 2.19 asks for health so, without a sandbox id, and the Python SDK up to 2.26 makes every call so
    /// after `Sandbox.connect`. A token that no sandbox has is that of a sandbox that is gone.
    async fn visit_by_token(&self, head: &Parts) -> Result<Visitor, Response<Body>> {
        if !head.headers.contains_key(&visitor::ACCESS_TOKEN) {
            let why = "the call names no sandbox (send `E2b-Sandbox-Id`, or `X-Access-Token`)";
            return Err(ControlError::new(StatusCode::UNAUTHORIZED, why).into_response());
        }
        let found = self.surface.signer(&FilesQuery::default(), &head.method, &head.headers).await;
        let found = found.map_err(|error| ControlError::from(error).into_response())?;
        let sandbox = found.ok_or_else(|| sandbox_not_found(""))?;
        self.visit(sandbox.as_str(), NamedBy::AnyName, head).await
    }

    async fn answer_visitor(
        self,
        visitor: Result<Visitor, Response<Body>>,
        mut request: Request<Body>,
        peer: IpAddr,
    ) -> Response<Body> {
        let visitor = match visitor {
            Ok(visitor) => visitor,
            Err(answer) => return hear_out(request, answer).await,
        };
        let actor = actor(&visitor.holder, peer);
        request.extensions_mut().insert(visitor);
        acting_as(actor, route(self.envd, request)).await
    }
}

/// Whether a request shows the access token of a sandbox, and no API key.
fn is_by_token(headers: &HeaderMap) -> bool {
    headers.contains_key(&visitor::ACCESS_TOKEN) && !headers.contains_key(&API_KEY)
}

/// Over HTTP/2 nobody else says that an answer is empty, and SDKs in JavaScript read JSON from one that does not say so.
fn say_when_empty(method: &Method, answer: &mut Response<Body>) {
    let has_body = method != Method::HEAD
        && !answer.status().is_informational()
        && !matches!(answer.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if has_body && answer.body().size_hint().exact() == Some(0) {
        answer.headers_mut().entry(header::CONTENT_LENGTH).or_insert(HeaderValue::from_static("0"));
    }
}

async fn route(router: Router, request: Request<Body>) -> Response<Body> {
    match router.oneshot(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}

/// What the audit log calls whoever calls.
fn actor(holder: &Holder, peer: IpAddr) -> Actor {
    Actor::new(&format!("{}@{peer}", holder.name)).unwrap_or_else(|_| Actor::host())
}
