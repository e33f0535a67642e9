//! Reaching the ports of a session.

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
    host::Inner,
    process::Dialer,
    verb::{Call, Verb},
};

/// Connections of one session at a time.
const MOST_CONNECTIONS: usize = 512;

/// What keeps connections to the ports of one session in bounds.
#[derive(Debug)]
pub(super) struct Ports {
    connections: Arc<Semaphore>,
    dialer: Dialer,
}

impl Default for Ports {
    fn default() -> Self {
        Self { connections: Arc::new(Semaphore::new(MOST_CONNECTIONS)), dialer: Dialer::default() }
    }
}

/// Who may reach the ports of a session.
#[derive(Clone, Debug)]
pub struct PortAccess {
    /// Everybody.
    pub public: bool,
    /// Whoever has this. It stays the same as long as the session exists.
    pub token: TrafficToken,
    /// Where the session is in its life: ports of one that is not active answer nobody.
    pub state: SessionState,
}

/// A connection to a port of a session. The session is in use as long as it exists; dropping it closes the connection.
#[derive(Debug)]
pub struct PortConnection {
    stream: DialedStream,
    _held: (InUse, OwnedSemaphorePermit),
}

impl Host {
    /// Connects to a TCP port of an active session. `Unavailable` naming `port` when nobody listens there.
    pub async fn dial_port(&self, id: &SessionId, port: u16) -> Result<PortConnection> {
        let target = id.clone();
        let call = Call::on(id, Verb::DialPort);
        let Dialable { session, sandbox } = self.run(call, move |inner| inner.dialable(&target, port)).await?;
        // Where there is no box nobody can listen, and none is started for it.
        let sandbox = sandbox.ok_or_else(|| nobody_listens(id, port))?;
        let in_use = session.activity.hold();
        let Ok(place) = Arc::clone(&session.ports.connections).try_acquire_owned() else {
            return Err(Error::new(
                ErrorCode::Unavailable,
                format!("session `{id}` has {MOST_CONNECTIONS} connections, which is the most"),
            )
            .with_hint("close some, or try again later"));
        };
        let stream = session.ports.dialer.dial(sandbox, port).await.map_err(|error| match error.code() {
            ErrorCode::Unavailable if error.field() == Some("port") => nobody_listens(id, port).with_source(error),
            _ => error,
        })?;
        Ok(PortConnection { stream, _held: (in_use, place) })
    }

    /// Who may reach the ports of a session. Asking is no use of the session.
    pub async fn port_access(&self, id: &SessionId) -> Result<PortAccess> {
        let target = id.clone();
        self.run(Call::on(id, Verb::PortAccess), move |inner| {
            inner.session_unused(&target)?;
            let record = inner.record(&target)?;
            let public = record.network.as_ref().is_some_and(|policy| policy.allow_public_ingress);
            Ok(PortAccess { public, token: inner.traffic_key.token(&record.id, record.created), state: record.state })
        })
        .await
    }

    /// The session whose token somebody knows when they see it.
    pub async fn session_of_token(
        &self,
        is_it: impl Fn(&TrafficToken) -> bool + Send + 'static,
    ) -> Result<Option<SessionId>> {
        self.run(Call::of(Verb::PortAccess), move |inner| {
            let births = inner.state.session_births()?;
            let its_own = |(id, created): &(SessionId, Timestamp)| is_it(&inner.traffic_key.token(id, *created));
            Ok(births.into_iter().find(its_own).map(|(id, _)| id))
        })
        .await
    }

    /// The domain below which ports of sessions have names.
    pub fn ingress_domain(&self) -> &DomainName {
        &self.inner().config.ingress_domain
    }
}

/// A session that is active.
struct Dialable {
    session: Arc<Session>,
    /// `None`: nothing runs in it.
    sandbox: Option<Arc<dyn Sandbox>>,
}

fn nobody_listens(id: &SessionId, port: u16) -> Error {
    Error::new(ErrorCode::Unavailable, format!("nothing listens on port {port} of session `{id}`"))
        .with_field("port")
        .with_hint("start a server there, on 127.0.0.1 or ::1 or on all addresses")
}

impl Inner {
    /// The box of an active session, if there is one. The session may be paused or stopped before it is dialed: a frozen
    /// box does not answer, and one that has stopped refuses.
    fn dialable(&self, id: &SessionId, port: u16) -> Result<Dialable> {
        let session = self.session(id)?;
        let _entry = session.gate.enter_shared()?;
        self.active(id)?;
        // Without a network of its own, every port of the machine would be one of the session.
        if self.runtime.kind() == RuntimeKind::None && !session.processes.expose(port) {
            return Err(Error::new(
                ErrorCode::PermissionDenied,
                format!("no process of session `{id}` exposes port {port}"),
            )
            .with_field("port")
            .with_hint(
                "runtime `none` shares the machine's network: launch the server as a process that exposes its port",
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
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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
