//! [`Proxy`]: forwards connections to a port of the host to a port of a process in its box.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use sandbar_core::{Error, Result};
use sandbar_runtime::Sandbox;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Clock, connection::Dialer};
use crate::session::Activity;

/// Connections of one process at a time. More wait in the backlog of the listener.
const MAX_CONNECTIONS: usize = 512;

/// Wait after a failed accept, for example when file descriptors have run out.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A listening port of the host that is not served yet.
#[derive(Debug)]
pub(crate) struct ExposedPort {
    listener: TcpListener,
    /// Port of the process.
    inside: u16,
    /// Address for clients.
    pub(crate) address: String,
}

impl ExposedPort {
    /// Listens on a free port of the advertised address: 127.0.0.1 for `localhost`, an IP address
    /// of this machine, or all addresses for any other host name. Must be called inside a tokio
    /// runtime.
    pub(crate) fn open(advertised: &str, inside: u16) -> Result<Self> {
        let listener = bind(advertised).map_err(|error| {
            Error::io(
                format!("listen on `{advertised}` for an exposed port"),
                error,
            )
            .with_field("advertise_addr")
            .with_hint("set `advertise_addr` to an IP address or host name of this machine")
        })?;
        let failed = |error| Error::io("listen for an exposed port", error);
        let port = listener.local_addr().map_err(failed)?.port();
        let address = match advertised.parse() {
            Ok(address) => SocketAddr::new(address, port).to_string(),
            Err(_) => format!("{advertised}:{port}"),
        };
        Ok(Self {
            listener: TcpListener::from_std(listener).map_err(failed)?,
            inside,
            address,
        })
    }

    /// Serves connections until the proxy is closed or dropped. A connection counts as a use of the
    /// session.
    pub(super) fn serve(self, clock: Arc<Clock>, activity: Arc<Activity>) -> Proxy {
        let (target, tasks, closed) = (
            watch::Sender::new(None),
            TaskTracker::new(),
            CancellationToken::new(),
        );
        let acceptor = Acceptor {
            listener: self.listener,
            inside: self.inside,
            target: target.subscribe(),
            clock,
            activity,
            tasks: tasks.clone(),
            closed: closed.clone(),
        };
        tasks.spawn(acceptor.run());
        Proxy {
            target,
            tasks,
            closed,
        }
    }
}

fn bind(advertised: &str) -> std::io::Result<std::net::TcpListener> {
    let any_port = |address: IpAddr| std::net::TcpListener::bind((address, 0));
    let listener = match advertised.parse() {
        Ok(address) => any_port(address),
        Err(_) if advertised == "localhost" => any_port(Ipv4Addr::LOCALHOST.into()),
        // Accepts IPv4 as well. Falls back to IPv4 where the kernel has no IPv6.
        Err(_) => any_port(Ipv6Addr::UNSPECIFIED.into())
            .or_else(|_| any_port(Ipv4Addr::UNSPECIFIED.into())),
    }?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A served port.
#[derive(Debug)]
pub(super) struct Proxy {
    /// Box to connect to; `None` while the process does not run.
    pub(super) target: watch::Sender<Option<Arc<dyn Sandbox>>>,
    tasks: TaskTracker,
    closed: CancellationToken,
}

impl Proxy {
    /// Closes the port and every connection through it.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

struct Acceptor {
    listener: TcpListener,
    inside: u16,
    target: watch::Receiver<Option<Arc<dyn Sandbox>>>,
    clock: Arc<Clock>,
    activity: Arc<Activity>,
    tasks: TaskTracker,
    closed: CancellationToken,
}

impl Acceptor {
    async fn run(self) {
        let closed = self.closed.clone();
        tokio::select! {
            () = closed.cancelled() => {}
            () = self.accept() => {}
        }
    }

    async fn accept(self) {
        let (connections, dialer) = (
            Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            Arc::new(Dialer::default()),
        );
        loop {
            let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
                return;
            };
            let client = match self.listener.accept().await {
                Ok((client, _)) => client,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection to an exposed port");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            // Drops the client, which closes the connection: no process would answer it.
            let Some(sandbox) = self
                .target
                .borrow()
                .clone()
                .filter(|_| !self.clock.is_paused())
            else {
                continue;
            };
            let (closed, in_use) = (self.closed.clone(), self.activity.hold());
            let relayed = relay(client, sandbox, self.inside, Arc::clone(&dialer));
            self.tasks.spawn(async move {
                let _until_done = (permit, in_use);
                tokio::select! {
                    () = closed.cancelled() => {}
                    () = relayed => {}
                }
            });
        }
    }
}

/// Copies bytes both ways until both sides have closed their stream, or one fails.
async fn relay(mut client: TcpStream, sandbox: Arc<dyn Sandbox>, port: u16, dialer: Arc<Dialer>) {
    match dialer.dial(sandbox, port).await {
        Ok(mut server) => {
            let _ = client.set_nodelay(true);
            // Whatever the error, both connections are closed.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
        Err(error) => {
            tracing::debug!(
                port,
                error = error.chain(),
                "closing a connection that could not be forwarded"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn exposed_port_returns_an_address_for_clients() {
        for (advertised, begins) in [
            ("127.0.0.1", "127.0.0.1:"),
            ("localhost", "localhost:"),
            ("box.example", "box.example:"),
        ] {
            let port = ExposedPort::open(advertised, 80).unwrap();
            assert!(port.address.starts_with(begins), "{}", port.address);
            let only_here = port.listener.local_addr().unwrap().ip().is_loopback();
            assert_eq!(only_here, advertised != "box.example");
        }
        // TEST-NET-1 is assigned to no machine.
        let error = ExposedPort::open("192.0.2.1", 80).unwrap_err();
        assert_eq!(error.field(), Some("advertise_addr"));
    }
}
