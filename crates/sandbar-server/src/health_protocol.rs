//! `grpc.health.v1`, which Kubernetes probes and load balancers ask: readiness, as `/readyz` and without a token.

use std::{sync::Arc, time::Duration};

use connectrpc::ConnectError;
use connectrpc_health::{Checker, HealthExt as _, HealthService, Status, StatusStream};
use futures::stream;
use sandbar_core::HealthStatus;
use sandbar_host::Host;
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::sync::CancellationToken;

/// Path of the calls, for a route.
pub(crate) const PATH: &str = "/grpc.health.v1.Health/{call}";

/// The names that can be asked about: the whole process, and the API.
const SERVICES: [&str; 2] = ["", "sandbar.v1.SandboxService"];
/// How often a watched host is looked at.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Watches that can be open at a time. No token is asked for, so this is for all callers together.
const MAX_WATCHES: usize = 64;

/// The calls of the protocol, about this host.
pub(crate) fn calls(host: Arc<Host>, shutdown: CancellationToken) -> connectrpc::Router {
    let readiness = Readiness { host, shutdown, watches: Arc::new(Semaphore::new(MAX_WATCHES)) };
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
        if self.shutdown.is_cancelled() || self.host.health().await.status == HealthStatus::Unhealthy {
            Status::NotServing
        } else {
            Status::Serving
        }
    }

    /// Waits until the status is another one than `last`; `None` once the server stops and that was told.
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
        let place = Arc::clone(&self.watches).try_acquire_owned();
        let place = place.map_err(|_| ConnectError::resource_exhausted("too many health watches are open"))?;
        let state = (self.clone(), None, place);
        Ok(StatusStream::new(stream::unfold(state, |(readiness, last, place)| async move {
            let status = readiness.next_after(last).await?;
            Some((status, (readiness, Some(status), place)))
        })))
    }
}

fn require_known(service: &str) -> Result<(), ConnectError> {
    if SERVICES.contains(&service) {
        Ok(())
    } else {
        Err(ConnectError::not_found("health is known of `sandbar.v1.SandboxService`, and of no other service"))
    }
}
