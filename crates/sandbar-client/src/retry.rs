//! Retries of idempotent calls.

use std::{future::Future, time::Duration};

use connectrpc::{ConnectError, ErrorCode as RpcCode};
use sandbar_core::Result;
use tokio::time::sleep;

use crate::Client;

/// Delays between attempts, of which there is one more.
const RETRY_DELAYS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(800),
];

impl Client {
    /// Makes an idempotent call, and retries it when the server could not be reached.
    pub(crate) async fn repeat<T, F>(&self, call: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, ConnectError>>,
    {
        for delay in RETRY_DELAYS {
            match call().await {
                Err(error) if error.code == RpcCode::Unavailable => sleep(delay).await,
                outcome => return outcome.map_err(|error| self.restore(&error)),
            }
        }
        call().await.map_err(|error| self.restore(&error))
    }

    /// Makes a call that is not idempotent, without retries.
    pub(crate) async fn once<T>(
        &self,
        call: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T> {
        call.await.map_err(|error| self.restore(&error))
    }
}
