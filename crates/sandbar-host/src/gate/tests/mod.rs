//! The gate by itself: its rules, one after another, and what happens when many come at once.

mod destruction;
mod rules;
mod scene;
mod schedules;

use std::{sync::Arc, time::Duration};

use sandbar_core::{ErrorCode, Result, SessionId};

use super::Gate;

/// The patience of those who do not want to wait. Under the checker it ends at any moment.
const SOON: Duration = Duration::from_millis(20);

/// The patience of those who wait for as long as it takes. Under the checker it never ends.
const FOREVER: Duration = Duration::MAX;

fn gate() -> Arc<Gate> {
    Gate::new(SessionId::new("s").unwrap())
}

fn code(outcome: Result<impl Sized>) -> ErrorCode {
    outcome.map(|_| ()).unwrap_err().code()
}
