//! Repeating what can be repeated.

use std::{future::Future, time::Duration};

use connectrpc::{ConnectError, ErrorCode as RpcCode};
use sandbar_core::Result;
use tokio::time::sleep;

use crate::Client;

/// Waits between attempts; one more attempt than there are waits.
const BACK_OFF: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(800)];

impl Client {
    /// Makes a call that changes nothing, or is done once however often it is made, again when the server could not be reached.
    pub(crate) async fn repeat<T, F>(&self, call: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, ConnectError>>,
    {
        for wait in BACK_OFF {
            match call().await {
                Err(error) if error.code == RpcCode::Unavailable => sleep(wait).await,
                outcome => return outcome.map_err(|error| self.restore(&error)),
            }
        }
        call().await.map_err(|error| self.restore(&error))
    }

    /// Makes a call that changes something: once.
    pub(crate) async fn once<T>(&self, call: impl Future<Output = Result<T, ConnectError>>) -> Result<T> {
        call.await.map_err(|error| self.restore(&error))
    }
}
