//! `grpc.health.v1` for Kubernetes probes and load balancers. Reports readiness like `/readyz`, and
//! needs no token.

use std::{sync::Arc, time::Duration};

use connectrpc::ConnectError;
use connectrpc_health::{Checker, HealthExt as _, HealthService, Status, StatusStream};
use futures::stream;
use sandbar_core::HealthStatus;
use sandbar_host::Host;
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::sync::CancellationToken;

/// Route of the calls.
pub(crate) const PATH: &str = "/grpc.health.v1.Health/{call}";

/// Service names with a status: the whole process, and the API.
const SERVICES: [&str; 2] = ["", "sandbar.v1.SandboxService"];
/// Interval at which a watch polls the host.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Limit on open watches of all callers together, as the protocol is served without a token.
const MAX_WATCHES: usize = 64;

/// Returns the dispatcher of the protocol.
pub(crate) fn dispatcher(host: Arc<Host>, shutdown: CancellationToken) -> connectrpc::Router {
    let readiness = Readiness {
        host,
        shutdown,
        watches: Arc::new(Semaphore::new(MAX_WATCHES)),
    };
    let router = Arc::new(HealthService::new(readiness)).register(connectrpc::Router::new());
    connectrpc_health::apply_request_limits(router, connectrpc_health::request_limits())
}

#[derive(Clone, Debug)]
struct Readiness {
    host: Arc<Host>,
    shutdown: CancellationToken,
    watches: Arc<Semaphore>,
}

impl Readiness {
    async fn status(&self) -> Status {
        if self.shutdown.is_cancelled()
            || self.host.health().await.status == HealthStatus::Unhealthy
        {
            Status::NotServing
        } else {
            Status::Serving
        }
    }

    /// Waits for a status other than `last`. `None` when the server stops and `last` says so.
    async fn next_after(&self, last: Option<Status>) -> Option<Status> {
        loop {
            let stopping = self.shutdown.is_cancelled();
            let status = self.status().await;
            if Some(status) != last {
                return Some(status);
            }
            if stopping {
                return None;
            }
            tokio::select! {
                () = sleep(WATCH_INTERVAL) => {}
                () = self.shutdown.cancelled() => {}
            }
        }
    }
}

impl Checker for Readiness {
    async fn check(&self, service: &str) -> Result<Status, ConnectError> {
        require_known(service)?;
        Ok(self.status().await)
    }

    async fn watch(&self, service: &str) -> Result<StatusStream, ConnectError> {
        require_known(service)?;
        let permit = Arc::clone(&self.watches).try_acquire_owned();
        let permit = permit
            .map_err(|_| ConnectError::resource_exhausted("too many health watches are open"))?;
        let state = (self.clone(), None, permit);
        Ok(StatusStream::new(stream::unfold(
            state,
            |(readiness, last, permit)| async move {
                let status = readiness.next_after(last).await?;
                Some((status, (readiness, Some(status), permit)))
            },
        )))
    }
}

fn require_known(service: &str) -> Result<(), ConnectError> {
    if SERVICES.contains(&service) {
        Ok(())
    } else {
        Err(ConnectError::not_found(
            "service not found: only `sandbar.v1.SandboxService` and the empty name have a status",
        ))
    }
}
