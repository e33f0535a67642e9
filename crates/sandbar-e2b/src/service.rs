//! The E2B API as one service: its parts, and dispatch of requests to them.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, HttpBody as _},
    response::IntoResponse as _,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use sandbar_core::Actor;
use sandbar_host::{Host, acting_as};
use sandbar_interpreter::Interpreters;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    Keyring, Route,
    auth::{ApiCaller, Auth, CallSlot, NamedBy, SessionCaller},
    control::{self, Control, Sampler},
    envd::{self, Envd},
    ingress_domain::IngressDomain,
    interpreter,
    protocol::{ACCESS_TOKEN, API_KEY},
    rest::{ApiError, cors, drain_body},
    sandboxes::{SandboxCeilings, Sandboxes},
    templates::{self, Templates},
};

/// Peer of a request, and the call slot of the request.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: IpAddr,
    pub slot: Arc<dyn CallSlot>,
}

/// The E2B API of a host.
#[derive(Clone, Debug)]
pub struct E2b {
    host: Arc<Host>,
    pub(crate) auth: Arc<Auth>,
    pub(crate) sandboxes: Arc<Sandboxes>,
    interpreters: Interpreters,
    templates: Arc<Templates>,
    control: Router,
    envd: Router,
    uploads: Router,
    _sampler: Arc<Sampler>,
}

impl E2b {
    /// Default limit for waiting until the start command of a new sandbox is ready. SDKs time out
    /// after a minute.
    pub const READY_TIMEOUT: Duration = Duration::from_secs(45);

    /// Creates the service and starts its background tasks, which end when `shutdown` is cancelled.
    /// Must be called inside a Tokio runtime.
    pub fn new(
        host: Arc<Host>,
        keyring: Arc<dyn Keyring>,
        (ready_timeout, ceilings): (Duration, SandboxCeilings),
        shutdown: CancellationToken,
    ) -> Self {
        let sandboxes = Arc::new(Sandboxes::new(Arc::clone(&host), ready_timeout, ceilings));
        let auth = Arc::new(Auth::new(
            Arc::clone(&host),
            Arc::clone(&sandboxes),
            keyring,
        ));
        let interpreters = Interpreters::new(Arc::clone(&host), shutdown.clone());
        let templates = Arc::new(Templates::new(
            Arc::clone(&host),
            Arc::clone(&sandboxes),
            shutdown.clone(),
        ));
        let control = Arc::new(Control::new(
            Arc::clone(&host),
            Arc::clone(&sandboxes),
            Arc::clone(&templates),
            interpreters.clone(),
        ));
        let envd = Arc::new(Envd::new(Arc::clone(&host), shutdown));
        Self {
            control: control::router(&control, &templates),
            envd: envd::router(&envd),
            uploads: templates::uploads_router(&templates),
            _sampler: Arc::new(Sampler::start(&control)),
            host,
            auth,
            sandboxes,
            interpreters,
            templates,
        }
    }

    /// Waits for the background tasks, after `shutdown` was cancelled: builds of templates, and
    /// starts of interpreters.
    pub async fn closed(&self) {
        self.templates.closed().await;
        self.interpreters.closed().await;
    }

    /// Answers a request that was routed to this API.
    pub async fn answer(self, route: Route, request: Request<Body>, peer: Peer) -> Response<Body> {
        // Without authentication, web pages of other origins must not get access.
        let allows_cors = !self.auth.is_disabled();
        if allows_cors && let Some(response) = cors::preflight(request.method(), request.headers())
        {
            return response;
        }
        let method = request.method().clone();
        let mut response = self.dispatch(route, request, peer).await;
        set_empty_length(&method, &mut response);
        if allows_cors {
            cors::allow(response.headers_mut());
        }
        response
    }

    async fn dispatch(self, route: Route, request: Request<Body>, peer: Peer) -> Response<Body> {
        match route {
            Route::Control => self.answer_control(request, peer).await,
            Route::Health if !has_only_access_token(request.headers()) => {
                self.answer_control(request, peer).await
            }
            Route::Upload => {
                let mut request = request;
                request.extensions_mut().insert(peer.slot);
                call(self.uploads, request).await
            }
            Route::EnvdByToken | Route::Health => {
                let (head, body) = request.into_parts();
                let caller = envd::admit_by_token((&self.auth, &*peer.slot), &head).await;
                self.answer_envd(caller, Request::from_parts(head, body), peer)
                    .await
            }
            Route::Envd { sandbox, named_by } => {
                let (head, body) = request.into_parts();
                let caller =
                    envd::admit((&self.auth, &*peer.slot), &sandbox, named_by, &head).await;
                self.answer_envd(caller, Request::from_parts(head, body), peer)
                    .await
            }
            Route::Files => {
                let (head, body) = request.into_parts();
                let caller = envd::admit_signed((&self.auth, &*peer.slot), &head).await;
                self.answer_envd(caller, Request::from_parts(head, body), peer)
                    .await
            }
            Route::Interpreter { sandbox, named_by } => {
                self.answer_interpreter(&sandbox, named_by, request, peer)
                    .await
            }
        }
    }

    async fn answer_control(self, mut request: Request<Body>, peer: Peer) -> Response<Body> {
        let admitted = self.auth.identify(request.headers()).and_then(|caller| {
            peer.slot.take(caller.owner())?;
            Ok(caller)
        });
        let caller = match admitted {
            Ok(caller) => caller,
            Err(error) => {
                return drain_body(request, ApiError::from(error).into_response()).await;
            }
        };
        let actor = actor(&caller, peer.address);
        let domain = IngressDomain::of(&request, self.host.ingress_domain());
        request.extensions_mut().insert(domain);
        request.extensions_mut().insert(caller);
        acting_as(actor, call(self.control, request)).await
    }

    async fn answer_envd(
        self,
        caller: Result<SessionCaller, Response<Body>>,
        mut request: Request<Body>,
        peer: Peer,
    ) -> Response<Body> {
        let caller = match caller {
            Ok(caller) => caller,
            Err(response) => return drain_body(request, response).await,
        };
        let actor = actor(&caller.caller, peer.address);
        request.extensions_mut().insert(caller);
        acting_as(actor, call(self.envd, request)).await
    }

    async fn answer_interpreter(
        self,
        sandbox: &str,
        named_by: NamedBy,
        request: Request<Body>,
        peer: Peer,
    ) -> Response<Body> {
        let credential = interpreter::credential(request.uri().path());
        let admitted = self
            .auth
            .admit(
                &*peer.slot,
                sandbox,
                (named_by, credential),
                request.headers(),
            )
            .await;
        let caller = match admitted {
            Ok(caller) => caller,
            Err(response) => return drain_body(request, response).await,
        };
        let answering = interpreter::answer(&self.interpreters, &caller, request);
        acting_as(actor(&caller.caller, peer.address), answering).await
    }
}

/// Returns whether a request has the access token of a sandbox and no API key.
fn has_only_access_token(headers: &HeaderMap) -> bool {
    headers.contains_key(&ACCESS_TOKEN) && !headers.contains_key(&API_KEY)
}

/// Sets `content-length: 0` on an empty response. HTTP/2 does not need it, but JavaScript SDKs
/// parse the body as JSON unless it is there.
fn set_empty_length(method: &Method, response: &mut Response<Body>) {
    let may_have_body = method != Method::HEAD
        && !response.status().is_informational()
        && !matches!(
            response.status(),
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
    if may_have_body && response.body().size_hint().exact() == Some(0) {
        response
            .headers_mut()
            .entry(header::CONTENT_LENGTH)
            .or_insert(HeaderValue::from_static("0"));
    }
}

async fn call(router: Router, request: Request<Body>) -> Response<Body> {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Returns the actor of a call for the audit log.
fn actor(caller: &ApiCaller, peer: IpAddr) -> Actor {
    Actor::new(&format!("{}@{peer}", caller.name)).unwrap_or_else(|_| Actor::host())
}
