//! Ingress: connections to the TCP ports of a session.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use jiff::Timestamp;
use sandbar_core::{DomainName, Error, ErrorCode, Result, RuntimeKind, SessionId, SessionState};
use sandbar_runtime::{DialedStream, Sandbox};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::{Session, activity::InUse};
use crate::{
    Host, TrafficToken,
    engine::Engine,
    process::Dialer,
    verb::{Call, Verb},
};

/// Ingress connections of one session at a time.
const MAX_CONNECTIONS: usize = 512;

/// Limits for ingress connections of one session.
#[derive(Debug)]
pub(super) struct Ports {
    connections: Arc<Semaphore>,
    dialer: Dialer,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            dialer: Dialer::default(),
        }
    }
}

/// Access rules for the ports of a session.
#[derive(Clone, Debug)]
pub struct PortAccess {
    /// Whether connections need no token.
    pub public: bool,
    /// Token that admits a connection. Stays the same as long as the session exists.
    pub token: TrafficToken,
    /// State of the session. Only ports of an active session answer.
    pub state: SessionState,
}

/// A connection to a port of a session. Counts as a use of the session; closed when dropped.
#[derive(Debug)]
pub struct PortConnection {
    stream: DialedStream,
    _held: (InUse, OwnedSemaphorePermit),
}

impl Host {
    /// Connects to a TCP port of an active session. `Unavailable` with field `port` if no process
    /// listens there.
    pub async fn dial_port(&self, id: &SessionId, port: u16) -> Result<PortConnection> {
        let target = id.clone();
        let call = Call::on(id, Verb::DialPort);
        let Dialable { session, sandbox } = self
            .run(call, move |engine| engine.dialable(&target, port))
            .await?;
        // Without a box no process listens, and none is started for a connection.
        let sandbox = sandbox.ok_or_else(|| not_listening(id, port))?;
        let in_use = session.activity.hold();
        let Ok(permit) = Arc::clone(&session.ports.connections).try_acquire_owned() else {
            return Err(Error::new(
                ErrorCode::Unavailable,
                format!("session `{id}` has reached its limit of {MAX_CONNECTIONS} connections"),
            )
            .with_hint("close some, or try again later"));
        };
        let stream = session
            .ports
            .dialer
            .dial(sandbox, port)
            .await
            .map_err(|error| match error.code() {
                ErrorCode::Unavailable if error.field() == Some("port") => {
                    not_listening(id, port).with_source(error)
                }
                _ => error,
            })?;
        Ok(PortConnection {
            stream,
            _held: (in_use, permit),
        })
    }

    /// Returns the access rules for the ports of a session. Does not count as a use of it.
    pub async fn port_access(&self, id: &SessionId) -> Result<PortAccess> {
        let target = id.clone();
        self.run(Call::on(id, Verb::PortAccess), move |engine| {
            engine.session_unused(&target)?;
            let record = engine.record(&target)?;
            let public = record
                .network
                .as_ref()
                .is_some_and(|policy| policy.allow_public_ingress);
            Ok(PortAccess {
                public,
                token: engine.traffic_key.token(&record.id, record.created),
                state: record.state,
            })
        })
        .await
    }

    /// Finds the session whose traffic token `matches`.
    pub async fn session_of_token(
        &self,
        matches: impl Fn(&TrafficToken) -> bool + Send + 'static,
    ) -> Result<Option<SessionId>> {
        self.run(Call::of(Verb::PortAccess), move |engine| {
            let sessions = engine.state.session_creations()?;
            let has_it = |(id, created): &(SessionId, Timestamp)| {
                matches(&engine.traffic_key.token(id, *created))
            };
            Ok(sessions.into_iter().find(has_it).map(|(id, _)| id))
        })
        .await
    }

    /// Returns the domain below which ports of sessions have host names.
    pub fn ingress_domain(&self) -> &DomainName {
        &self.engine().config.ingress_domain
    }
}

/// An active session and its box.
struct Dialable {
    session: Arc<Session>,
    /// `None`: no box was started, or it has died.
    sandbox: Option<Arc<dyn Sandbox>>,
}

fn not_listening(id: &SessionId, port: u16) -> Error {
    Error::new(
        ErrorCode::Unavailable,
        format!("nothing listens on port {port} of session `{id}`"),
    )
    .with_field("port")
    .with_hint("start a server there, on 127.0.0.1 or ::1 or on all addresses")
}

impl Engine {
    /// Returns the box of an active session. The session may be paused or stopped before the box is
    /// dialed; the dial then times out or fails.
    fn dialable(&self, id: &SessionId, port: u16) -> Result<Dialable> {
        let session = self.session(id)?;
        let _entry = session.admission.enter_shared()?;
        self.active(id)?;
        // Runtime `none` shares the network of the machine: without this check every local port of
        // the machine could be reached as one of the session.
        if self.runtime.kind() == RuntimeKind::None && !session.processes.expose(port) {
            return Err(Error::new(
                ErrorCode::PermissionDenied,
                format!("no process of session `{id}` exposes port {port}"),
            )
            .with_field("port")
            .with_hint(
                "runtime `none` shares the network of the machine; launch the server as a process that exposes its port",
            ));
        }
        let sandbox = session.live_sandbox().filter(|sandbox| sandbox.is_alive());
        Ok(Dialable { session, sandbox })
    }
}

impl AsyncRead for PortConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PortConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
