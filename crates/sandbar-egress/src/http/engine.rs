//! Serves the HTTP requests of one connection.

use std::{
    convert::Infallible,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, Version, header::EXPECT, request::Parts};
use hyper::{
    body::{Body as _, Incoming},
    ext::ReasonPhrase,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use sandbar_core::Transport;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use super::{
    Origin,
    decision_log::DecisionLog,
    headers::strip_hop_by_hop,
    idle_timer::{IdleLimits, IdleTimer, TimedIo},
    inject::Injection,
    relayed_body::RelayedBody,
    reply::Reply,
    request_target::{RequestTarget, request_target},
    tasks::Tasks,
    upgrade::Upgrade,
    upstream_pool::{UpstreamPool, UpstreamScheme},
};
use crate::{
    egress_context::EgressContext, refusal::Refusal, rules::Rules, sniff::HostPort,
    tls::HttpVersions,
};

/// Limit for the header section of a request.
const MAX_HEADER_BYTES: u16 = u16::MAX;
const MAX_CONCURRENT_STREAMS: u32 = 100;
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves requests until the connection ends. Dropping the future ends every task it started.
pub(crate) async fn serve_http<S>(io: S, origin: Origin, context: Arc<dyn EgressContext>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let idle_timer = IdleTimer::new(IdleLimits {
        head: Some(HEADER_TIMEOUT),
        idle: IDLE_TIMEOUT,
    });
    let engine = Arc::new(Engine::new(
        origin,
        HttpVersions::Http1,
        context,
        Arc::clone(&idle_timer),
    ));
    let relays = engine.relays.clone();
    let _owners = (engine.tasks.owner(), relays.owner());
    let connection = http1::Builder::new()
        .preserve_header_case(true)
        .auto_date_header(false)
        .header_read_timeout(None)
        .max_header_size(MAX_HEADER_BYTES.into())
        .serve_connection(
            TokioIo::new(TimedIo {
                io,
                timer: Arc::clone(&idle_timer),
            }),
            service_fn(move |request| Engine::answer(Arc::clone(&engine), request)),
        )
        .with_upgrades();
    until_end(
        connection,
        &idle_timer,
        http1::UpgradeableConnection::graceful_shutdown,
    )
    .await;
    relays.finished().await;
}

/// Like [`serve_http`], for connections that versions HTTP/2.
pub(crate) async fn serve_http2<S>(io: S, origin: Origin, context: Arc<dyn EgressContext>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let idle_timer = IdleTimer::new(IdleLimits {
        head: None,
        idle: IDLE_TIMEOUT,
    });
    let engine = Arc::new(Engine::new(
        origin,
        HttpVersions::Http1Or2,
        context,
        Arc::clone(&idle_timer),
    ));
    let tasks = engine.tasks.clone();
    let _owner = tasks.owner();
    let connection = http2::Builder::new(tasks)
        .auto_date_header(false)
        .max_header_list_size(MAX_HEADER_BYTES.into())
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .timer(TokioTimer::new())
        .serve_connection(
            TokioIo::new(TimedIo {
                io,
                timer: Arc::clone(&idle_timer),
            }),
            service_fn(move |request| Engine::answer(Arc::clone(&engine), request)),
        );
    until_end(
        connection,
        &idle_timer,
        http2::Connection::graceful_shutdown,
    )
    .await;
}

/// Drives a connection until it ends; shuts it down gracefully when it is idle for too long.
async fn until_end<C>(connection: C, idle_timer: &IdleTimer, shut_down: impl FnOnce(Pin<&mut C>))
where
    C: Future<Output = Result<(), hyper::Error>>,
{
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Ok(ended),
        () = idle_timer.expired() => {
            shut_down(connection.as_mut());
            timeout(SHUTDOWN_TIMEOUT, connection).await
        }
    };
    if let Ok(Err(error)) = ended {
        tracing::debug!("connection of a session failed: {error}");
    }
}

/// State of one connection of a session.
struct Engine {
    origin: Origin,
    context: Arc<dyn EgressContext>,
    decisions: DecisionLog,
    upstreams: UpstreamPool,
    idle_timer: Arc<IdleTimer>,
    tasks: Tasks,
    /// Upgraded connections, which outlive their HTTP connection.
    relays: Tasks,
}

impl Engine {
    fn new(
        origin: Origin,
        versions: HttpVersions,
        context: Arc<dyn EgressContext>,
        idle_timer: Arc<IdleTimer>,
    ) -> Self {
        let tasks = Tasks::default();
        let scheme = match &origin {
            Origin::Explicit | Origin::Transparent { .. } => UpstreamScheme::Plain,
            Origin::Intercepted { name, .. } => UpstreamScheme::Tls(name.clone(), versions),
        };
        Self {
            decisions: DecisionLog::new(Arc::clone(&context), &origin),
            upstreams: UpstreamPool::new(Arc::clone(&context), scheme, tasks.clone()),
            origin,
            context,
            idle_timer,
            tasks,
            relays: Tasks::default(),
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<RelayedBody>, Infallible> {
        let active = self.idle_timer.start_request();
        let response = self
            .serve(request)
            .await
            .unwrap_or_else(Reply::into_response);
        Ok(response.map(|content| content.while_active(active)))
    }

    async fn serve(&self, mut request: Request<Incoming>) -> Result<Response<RelayedBody>, Reply> {
        let upgrade = Upgrade::from_request(&mut request);
        let (mut head, body) = request.into_parts();
        let mut body = RelayedBody::relayed(body);
        // With `Expect` the client has sent nothing yet, and in HTTP/2 a stream can be reset alone.
        if head.version != Version::HTTP_2 && !head.headers.contains_key(EXPECT) {
            body = body.drained_by(&self.tasks);
        }
        if head.method == Method::CONNECT {
            return Err(Reply::NotServed);
        }
        let target = request_target(&self.origin, &head)
            .inspect_err(|reply| self.decisions.refused(&self.origin, reply))?;
        let rules = self.context.rules();
        let target = self.use_open_address(&rules, target);
        let injection = self.injection(&rules, &target)?;
        if !injection.is_empty() && echoes_headers(&head.method) {
            return Err(Reply::NotServed);
        }
        // The secret is added last, so that a `Connection` header of the session cannot remove it.
        strip_hop_by_hop(&mut head.headers);
        if let Some(upgrade) = &upgrade {
            upgrade.add_to(&mut head.headers);
        }
        injection.put(&mut head.headers);
        let body = body.with_trailer_filter({
            let injection = injection.clone();
            move |trailers| injection.clear(trailers)
        });
        let response = self.send(&target, &rules, &injection, (head, body)).await?;
        self.pass_back(response, &target, injection, upgrade)
    }

    /// Replaces a host name that no rule allows by the original destination of the connection, if
    /// that address is open and the name is not denied.
    fn use_open_address(&self, rules: &Rules, target: RequestTarget) -> RequestTarget {
        let (Origin::Transparent { to }, HostPort::Name(name, port)) = (&self.origin, &target.host)
        else {
            return target;
        };
        let is_open = || {
            rules
                .address(
                    Transport::Tcp,
                    to.ip(),
                    to.port(),
                    &self.context.own_addresses(),
                )
                .is_allowed()
        };
        if rules.name(Transport::Tcp, name, *port).is_allowed()
            || rules.denies_name(name, *port)
            || !is_open()
        {
            return target;
        }
        RequestTarget {
            host: HostPort::Address(*to),
            ..target
        }
    }

    /// Returns the secrets for this request. Only intercepted TLS gets any: a secret must not leave
    /// the host in plain text or for a host that was not verified.
    fn injection(&self, rules: &Rules, target: &RequestTarget) -> Result<Injection, Reply> {
        let Origin::Intercepted { name, port } = &self.origin else {
            return Ok(Injection::default());
        };
        Injection::prepare(rules, name, *port, |secret| self.context.secret(secret)).map_err(
            |missing| {
                self.decisions.denied(
                    &target.host,
                    &format!("secret {missing} does not exist on this host"),
                );
                Reply::MissingSecret(missing)
            },
        )
    }

    /// Sends the request. Retries once on a new connection if a reused one turns out to be closed.
    async fn send(
        &self,
        target: &RequestTarget,
        rules: &Arc<Rules>,
        injection: &Injection,
        message: (Parts, RelayedBody),
    ) -> Result<Response<Incoming>, Reply> {
        let (mut message, mut connection) =
            (message, self.upstreams.get(&target.host, rules).await);
        loop {
            let mut connected = match connection {
                Ok(connected) => connected,
                Err(refusal) => return Err(self.refused(target, rules, refusal)),
            };
            let reason = self.reason(rules, &target.host);
            self.decisions.allowed(
                &target.host,
                Some(connected.address),
                &reason,
                injection.names().to_vec(),
            );
            let (head, body) = message;
            let retry =
                (connected.is_reused && head.method.is_idempotent() && body.is_end_stream())
                    .then(|| (head.clone(), RelayedBody::text(String::new())));
            match connected.send(head, body, target).await {
                Ok(response) => {
                    self.upstreams.put_back(connected);
                    return Ok(response);
                }
                Err(failed) => {
                    let Some(again) = failed.unsent.or(retry).filter(|_| connected.is_reused)
                    else {
                        return Err(unreachable(target, failed.reason));
                    };
                    message = again;
                }
            }
            connection = self.upstreams.connect(&target.host, rules).await;
        }
    }

    fn refused(&self, target: &RequestTarget, rules: &Rules, refusal: Refusal) -> Reply {
        if refusal.denied {
            self.decisions.denied(&target.host, &refusal.reason);
        } else {
            self.decisions.allowed(
                &target.host,
                None,
                &self.reason(rules, &target.host),
                Vec::new(),
            );
        }
        Reply::Refused {
            host: target.host.to_string(),
            refusal,
        }
    }

    /// Returns the reason why the target is allowed.
    fn reason(&self, rules: &Rules, target: &HostPort) -> String {
        let verdict = match target {
            HostPort::Name(name, port) => rules.name(Transport::Tcp, name, *port),
            HostPort::Address(address) => rules.address(
                Transport::Tcp,
                address.ip(),
                address.port(),
                &self.context.own_addresses(),
            ),
        };
        verdict.reason().to_owned()
    }

    fn pass_back(
        &self,
        response: Response<Incoming>,
        target: &RequestTarget,
        injection: Injection,
        upgrade: Option<Upgrade>,
    ) -> Result<Response<RelayedBody>, Reply> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(upgrade) = upgrade else {
                return Err(unreachable(
                    target,
                    "the server switched protocols without a request".to_owned(),
                ));
            };
            let mut headers = upgrade.relay(response, &self.relays);
            injection.hide(&mut headers);
            let mut switch = Response::new(RelayedBody::text(String::new()));
            *switch.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            *switch.headers_mut() = headers;
            return Ok(switch);
        }
        let (mut head, body) = response.into_parts();
        head.version = Version::HTTP_11;
        strip_hop_by_hop(&mut head.headers);
        injection.hide(&mut head.headers);
        if !injection.is_empty() {
            // The reason phrase is free text and could contain the secret.
            head.extensions.remove::<ReasonPhrase>();
        }
        let body = RelayedBody::relayed(body)
            .with_trailer_filter(move |trailers| injection.hide(trailers));
        Ok(Response::from_parts(head, body))
    }
}

fn unreachable(target: &RequestTarget, reason: String) -> Reply {
    Reply::Refused {
        host: target.host.to_string(),
        refusal: Refusal {
            reason,
            denied: false,
        },
    }
}

/// Whether the server echoes request headers in the response body.
fn echoes_headers(method: &Method) -> bool {
    *method == Method::TRACE || method.as_str().eq_ignore_ascii_case("TRACK")
}
