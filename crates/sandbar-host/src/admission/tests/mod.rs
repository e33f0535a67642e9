//! The admission lock alone: its rules one by one, and its invariants under many schedules.

mod destruction;
mod rules;
mod scene;
mod schedules;

use std::{sync::Arc, time::Duration};

use sandbar_core::{ErrorCode, Result, SessionId};

use super::AdmissionLock;

/// A timeout that the checker may let expire at any step.
const SOON: Duration = Duration::from_millis(20);

/// A timeout that never expires under the checker.
const FOREVER: Duration = Duration::MAX;

fn new_lock() -> Arc<AdmissionLock> {
    AdmissionLock::new(SessionId::new("s").unwrap())
}

fn code(outcome: Result<impl Sized>) -> ErrorCode {
    outcome.map(|_| ()).unwrap_err().code()
}
