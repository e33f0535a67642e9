//! [`Dialer`]: TCP connections into a box.

use std::{sync::Arc, time::Duration};

use sandbar_core::{Error, ErrorCode, Result};
use sandbar_runtime::{DialedStream, Sandbox};
use tokio::{sync::Semaphore, time::timeout};

use crate::blocking::waiting;

/// Connections that one dialer opens at a time. Each takes a thread until its box answers.
const MAX_CONCURRENT_DIALS: usize = 8;

/// Time for a box to accept a connection, and for a dial to wait for its turn.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a port of a box.
pub(super) async fn connect(
    sandbox: Arc<dyn Sandbox>,
    port: u16,
    timeout: Duration,
) -> Result<DialedStream> {
    connect_holding((), sandbox, port, timeout).await
}

/// As [`connect`]. Drops `held` when the thread is done, also if the future was dropped before.
async fn connect_holding(
    held: impl Send + 'static,
    sandbox: Arc<dyn Sandbox>,
    port: u16,
    timeout: Duration,
) -> Result<DialedStream> {
    let dialed = waiting(move || {
        let _held = held;
        sandbox.dial(port, timeout)
    })
    .await?;
    dialed
        .into_stream()
        .map_err(|error| Error::io("use a connection into a sandbox", error))
}

/// Opens connections to one session, a limited number at a time, so that a box that does not accept
/// them cannot take every thread of the host.
#[derive(Debug)]
pub(crate) struct Dialer(Arc<Semaphore>);

impl Default for Dialer {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CONCURRENT_DIALS)))
    }
}

impl Dialer {
    pub(crate) async fn dial(&self, sandbox: Arc<dyn Sandbox>, port: u16) -> Result<DialedStream> {
        let Ok(Ok(permit)) = timeout(DIAL_TIMEOUT, Arc::clone(&self.0).acquire_owned()).await
        else {
            return Err(Error::new(
                ErrorCode::Timeout,
                "sandbox did not accept connections in time",
            )
            .with_field("port"));
        };
        connect_holding(permit, sandbox, port, DIAL_TIMEOUT).await
    }
}
