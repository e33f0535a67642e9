//! Retries of transient failures.

use std::time::Duration;

use sandbar_core::{Error, Result};
use tokio::time::sleep;

/// Limit on the delay, also if a registry asks for more.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Retry policy of requests to a registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// Consecutive failed attempts before giving up.
    pub(crate) attempts: u32,
    /// Delay before the second attempt; doubled for each further one.
    pub(crate) delay: Duration,
}

/// Failure of an attempt.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Not retried.
    Permanent(Error),
    /// Retried, after the delay the registry asked for, if any.
    Transient(Error, Option<Duration>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Permanent(error)
    }
}

/// Counter of consecutive failed attempts.
#[derive(Debug)]
pub(crate) struct Attempts {
    retry_policy: RetryPolicy,
    failed: u32,
}

impl Attempts {
    pub(crate) fn new(retry_policy: RetryPolicy) -> Self {
        Self {
            retry_policy,
            failed: 0,
        }
    }

    /// Resets the counter, because the last attempt made progress.
    pub(crate) fn progressed(&mut self) {
        self.failed = 0;
    }

    /// Waits before the next attempt; returns the error if there is none.
    pub(crate) async fn after(&mut self, failure: Failure) -> Result<()> {
        let (error, asked) = match failure {
            Failure::Permanent(error) => return Err(error),
            Failure::Transient(error, asked) => (error, asked),
        };
        self.failed += 1;
        if self.failed >= self.retry_policy.attempts {
            return Err(error);
        }
        let pause = asked
            .unwrap_or(self.retry_policy.delay * 2_u32.saturating_pow(self.failed - 1))
            .min(MAX_RETRY_DELAY);
        tracing::debug!(?pause, "{}; trying again", error.chain());
        sleep(pause).await;
        Ok(())
    }
}
