//! Serves one connection of a session.

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
    Origin, Outside, Refusal,
    content::Content,
    headers::strip_connection,
    inject::Injection,
    ledger::Ledger,
    links::{Links, Manner},
    patience::{Limits, Patience, Watched},
    reply::Reply,
    requested::{Requested, requested},
    tasks::Tasks,
    upgrade::Upgrade,
};
use crate::{rules::Rules, sniff::HostPort, tls::Speak};

/// More bytes of headers than this are refused.
const MOST_HEADERS: u16 = u16::MAX;
const MOST_REQUESTS_AT_ONCE: u32 = 100;
const LONGEST_HEAD: Duration = Duration::from_secs(30);
const LONGEST_IDLE: Duration = Duration::from_mins(5);
const LONGEST_FAREWELL: Duration = Duration::from_secs(1);

/// Serves requests until the connection ends. Dropping the future ends everything it began.
pub(crate) async fn serve_http<S>(io: S, origin: Origin, outside: Arc<dyn Outside>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let patience = Patience::new(Limits { head: Some(LONGEST_HEAD), idle: LONGEST_IDLE });
    let engine = Arc::new(Engine::new(origin, Speak::Http1, outside, Arc::clone(&patience)));
    let relays = engine.relays.clone();
    let _owners = (engine.tasks.owner(), relays.owner());
    let connection = http1::Builder::new()
        .preserve_header_case(true)
        .auto_date_header(false)
        .header_read_timeout(None)
        .max_header_size(MOST_HEADERS.into())
        .serve_connection(
            TokioIo::new(Watched { io, patience: Arc::clone(&patience) }),
            service_fn(move |request| Engine::answer(Arc::clone(&engine), request)),
        )
        .with_upgrades();
    until_end(connection, &patience, http1::UpgradeableConnection::graceful_shutdown).await;
    relays.finished().await;
}

/// The same, for connections that speak HTTP/2.
pub(crate) async fn serve_http2<S>(io: S, origin: Origin, outside: Arc<dyn Outside>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let patience = Patience::new(Limits { head: None, idle: LONGEST_IDLE });
    let engine = Arc::new(Engine::new(origin, Speak::AnyHttp, outside, Arc::clone(&patience)));
    let tasks = engine.tasks.clone();
    let _owner = tasks.owner();
    let connection = http2::Builder::new(tasks)
        .auto_date_header(false)
        .max_header_list_size(MOST_HEADERS.into())
        .max_concurrent_streams(MOST_REQUESTS_AT_ONCE)
        .timer(TokioTimer::new())
        .serve_connection(
            TokioIo::new(Watched { io, patience: Arc::clone(&patience) }),
            service_fn(move |request| Engine::answer(Arc::clone(&engine), request)),
        );
    until_end(connection, &patience, http2::Connection::graceful_shutdown).await;
}

/// Drives a connection until it ends, or has waited too long and was told to end.
async fn until_end<C>(connection: C, patience: &Patience, tell: impl FnOnce(Pin<&mut C>))
where
    C: Future<Output = Result<(), hyper::Error>>,
{
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Ok(ended),
        () = patience.end() => {
            tell(connection.as_mut());
            timeout(LONGEST_FAREWELL, connection).await
        }
    };
    if let Ok(Err(error)) = ended {
        tracing::debug!("a connection of a session ended: {error}");
    }
}

/// Everything one connection of a session has.
struct Engine {
    origin: Origin,
    outside: Arc<dyn Outside>,
    ledger: Ledger,
    links: Links,
    patience: Arc<Patience>,
    tasks: Tasks,
    /// Connections that went on as something else, which outlive their HTTP.
    relays: Tasks,
}

impl Engine {
    fn new(origin: Origin, speak: Speak, outside: Arc<dyn Outside>, patience: Arc<Patience>) -> Self {
        let tasks = Tasks::default();
        let manner = match &origin {
            Origin::Explicit | Origin::Transparent { .. } => Manner::Plain,
            Origin::Intercepted { name, .. } => Manner::Tls(name.clone(), speak),
        };
        Self {
            ledger: Ledger::new(Arc::clone(&outside), &origin),
            links: Links::new(Arc::clone(&outside), manner, tasks.clone()),
            origin,
            outside,
            patience,
            tasks,
            relays: Tasks::default(),
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Content>, Infallible> {
        let busy = self.patience.busy();
        let response = self.serve(request).await.unwrap_or_else(Reply::into_response);
        Ok(response.map(|content| content.while_busy(busy)))
    }

    async fn serve(&self, mut request: Request<Incoming>) -> Result<Response<Content>, Reply> {
        let upgrade = Upgrade::wanted(&mut request);
        let (mut head, body) = request.into_parts();
        let mut body = Content::relayed(body);
        // A client that asked for leave to send has sent nothing yet, and HTTP/2 can say that it need not go on.
        if head.version != Version::HTTP_2 && !head.headers.contains_key(EXPECT) {
            body = body.drained_by(&self.tasks);
        }
        if head.method == Method::CONNECT {
            return Err(Reply::NotServed);
        }
        let requested = requested(&self.origin, &head).inspect_err(|reply| self.ledger.refused(&self.origin, reply))?;
        let rules = self.outside.rules();
        let requested = self.at_its_address(&rules, requested);
        let injection = self.injection(&rules, &requested)?;
        if !injection.is_empty() && shows_headers(&head.method) {
            return Err(Reply::NotServed);
        }
        // The secret comes last, so that nothing the session says about headers touches it.
        strip_connection(&mut head.headers);
        if let Some(upgrade) = &upgrade {
            upgrade.ask(&mut head.headers);
        }
        injection.put(&mut head.headers);
        let body = body.with_trailers_cleansed({
            let injection = injection.clone();
            move |trailers| injection.clear(trailers)
        });
        let response = self.send(&requested, &rules, &injection, (head, body)).await?;
        self.pass_back(response, &requested, injection, upgrade)
    }

    /// A host nobody opened by name is reached at the address the connection was meant for, where that is open itself and the
    /// name is not denied.
    fn at_its_address(&self, rules: &Rules, requested: Requested) -> Requested {
        let (Origin::Transparent { to }, HostPort::Name(name, port)) = (&self.origin, &requested.target) else {
            return requested;
        };
        let is_open = || rules.address(Transport::Tcp, to.ip(), to.port(), &self.outside.own_addresses()).is_allowed();
        if rules.name(Transport::Tcp, name, *port).is_allowed() || rules.denies_name(name, *port) || !is_open() {
            return requested;
        }
        Requested { target: HostPort::Address(*to), ..requested }
    }

    /// The secrets for this request. They go nowhere but into TLS that was opened here.
    fn injection(&self, rules: &Rules, requested: &Requested) -> Result<Injection, Reply> {
        let Origin::Intercepted { name, port } = &self.origin else { return Ok(Injection::default()) };
        Injection::prepare(rules, name, *port, |secret| self.outside.secret(secret)).map_err(|missing| {
            self.ledger.denied(&requested.target, &format!("secret {missing} is not known to this host"));
            Reply::MissingSecret(missing)
        })
    }

    /// Sends the request, once more if the connection that was kept turns out to be gone.
    async fn send(
        &self,
        requested: &Requested,
        rules: &Arc<Rules>,
        injection: &Injection,
        message: (Parts, Content),
    ) -> Result<Response<Incoming>, Reply> {
        let (mut message, mut link) = (message, self.links.any(&requested.target, rules).await);
        loop {
            let mut connected = match link {
                Ok(connected) => connected,
                Err(refusal) => return Err(self.refused(requested, rules, refusal)),
            };
            let reason = self.reason(rules, &requested.target);
            self.ledger.allowed(&requested.target, Some(connected.address), &reason, injection.names().to_vec());
            let (head, body) = message;
            let spare = (connected.is_reused && head.method.is_idempotent() && body.is_end_stream())
                .then(|| (head.clone(), Content::text(String::new())));
            match connected.send(head, body, requested).await {
                Ok(response) => {
                    self.links.keep(connected);
                    return Ok(response);
                }
                Err(failed) => {
                    let Some(again) = failed.unsent.or(spare).filter(|_| connected.is_reused) else {
                        return Err(unreachable(requested, failed.reason));
                    };
                    message = again;
                }
            }
            link = self.links.fresh(&requested.target, rules).await;
        }
    }

    fn refused(&self, requested: &Requested, rules: &Rules, refusal: Refusal) -> Reply {
        if refusal.denied {
            self.ledger.denied(&requested.target, &refusal.reason);
        } else {
            self.ledger.allowed(&requested.target, None, &self.reason(rules, &requested.target), Vec::new());
        }
        Reply::Refused { host: requested.target.to_string(), refusal }
    }

    /// Why it is allowed.
    fn reason(&self, rules: &Rules, target: &HostPort) -> String {
        let verdict = match target {
            HostPort::Name(name, port) => rules.name(Transport::Tcp, name, *port),
            HostPort::Address(address) => {
                rules.address(Transport::Tcp, address.ip(), address.port(), &self.outside.own_addresses())
            }
        };
        verdict.reason().to_owned()
    }

    fn pass_back(
        &self,
        response: Response<Incoming>,
        requested: &Requested,
        injection: Injection,
        upgrade: Option<Upgrade>,
    ) -> Result<Response<Content>, Reply> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(upgrade) = upgrade else {
                return Err(unreachable(requested, "the server goes on in a way nobody asked for".to_owned()));
            };
            let mut headers = upgrade.relay(response, &self.relays);
            injection.hide(&mut headers);
            let mut switch = Response::new(Content::text(String::new()));
            *switch.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            *switch.headers_mut() = headers;
            return Ok(switch);
        }
        let (mut head, body) = response.into_parts();
        head.version = Version::HTTP_11;
        strip_connection(&mut head.headers);
        injection.hide(&mut head.headers);
        if !injection.is_empty() {
            // A reason is free text, and could say the secret.
            head.extensions.remove::<ReasonPhrase>();
        }
        let body = Content::relayed(body).with_trailers_cleansed(move |trailers| injection.hide(trailers));
        Ok(Response::from_parts(head, body))
    }
}

fn unreachable(requested: &Requested, reason: String) -> Reply {
    Reply::Refused { host: requested.target.to_string(), refusal: Refusal { reason, denied: false } }
}

/// Methods that make a server send the headers back in a body.
fn shows_headers(method: &Method) -> bool {
    *method == Method::TRACE || method.as_str().eq_ignore_ascii_case("TRACK")
}
