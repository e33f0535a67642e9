//! Trying again after what passes by itself, and not after what does not.

use std::time::Duration;

use sandbar_core::{Error, Result};
use tokio::time::sleep;

/// The longest a registry may ask us to wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often and how fast something is tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Attempts in a row that come to nothing.
    pub(crate) attempts: u32,
    /// Before the second attempt; twice as long before each further one.
    pub(crate) pause: Duration,
}

/// Why an attempt came to nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Trying again helps nobody.
    Final(Error),
    /// It may pass. The registry may have said when.
    Passing(Error, Option<Duration>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Counts attempts that came to nothing.
#[derive(Debug)]
pub(crate) struct Attempts {
    patience: Patience,
    failed: u32,
}

impl Attempts {
    pub(crate) fn new(patience: Patience) -> Self {
        Self { patience, failed: 0 }
    }

    /// Something came of the last attempt after all.
    pub(crate) fn progressed(&mut self) {
        self.failed = 0;
    }

    /// Waits until it makes sense to try again; an error when it does not.
    pub(crate) async fn after(&mut self, failure: Failure) -> Result<()> {
        let (error, asked) = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Passing(error, asked) => (error, asked),
        };
        self.failed += 1;
        if self.failed >= self.patience.attempts {
            return Err(error);
        }
        let pause = asked.unwrap_or(self.patience.pause * 2_u32.saturating_pow(self.failed - 1)).min(LONGEST_PAUSE);
        tracing::debug!(?pause, "{}; trying again", error.chain());
        sleep(pause).await;
        Ok(())
    }
}
