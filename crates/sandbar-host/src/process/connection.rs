//! Connections into a box.

use std::{sync::Arc, time::Duration};

use sandbar_core::{Error, ErrorCode, Result};
use sandbar_runtime::{DialedStream, Sandbox};
use tokio::{sync::Semaphore, time::timeout};

use crate::host::blocking;

/// Connections that one dialer makes at a time. Each takes a thread until its box answers.
const MOST_DIALS: usize = 8;

/// How long a box may take to accept a connection, and how long one may wait for its turn to be made.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects to a port of a box.
pub(super) async fn connect(sandbox: Arc<dyn Sandbox>, port: u16, patience: Duration) -> Result<DialedStream> {
    connect_holding((), sandbox, port, patience).await
}

/// As [`connect`]; `held` is dropped when the thread is done, also when the caller has gone away before.
async fn connect_holding(
    held: impl Send + 'static,
    sandbox: Arc<dyn Sandbox>,
    port: u16,
    patience: Duration,
) -> Result<DialedStream> {
    let dialed = blocking(move || {
        let _held = held;
        sandbox.dial(port, patience)
    })
    .await?;
    dialed.into_stream().map_err(|error| Error::io("use a connection into a sandbox", error))
}

/// Makes connections, not too many at once: whoever asks for them must not take every thread of the host.
#[derive(Debug)]
pub(crate) struct Dialer(Arc<Semaphore>);

impl Default for Dialer {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_DIALS)))
    }
}

impl Dialer {
    pub(crate) async fn dial(&self, sandbox: Arc<dyn Sandbox>, port: u16) -> Result<DialedStream> {
        let Ok(Ok(turn)) = timeout(PATIENCE, Arc::clone(&self.0).acquire_owned()).await else {
            return Err(Error::new(ErrorCode::Timeout, "the sandbox does not accept connections as fast as they come")
                .with_field("port"));
        };
        connect_holding(turn, sandbox, port, PATIENCE).await
    }
}
