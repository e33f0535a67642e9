//! How a host is.

use std::{fmt, time::Duration};

use crate::ByteCount;

/// How a host is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    Healthy,
    /// It works, and something needs attention.
    Degraded,
    /// It refuses new sessions; destroy, delete and rollback still work.
    Unhealthy,
}

impl HealthStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

impl fmt::Display for HealthStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a host is, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    pub status: HealthStatus,
    /// Why it is not healthy.
    pub reasons: Vec<String>,
    /// The storage's own word: `ONLINE`, `DEGRADED`, `read-only`.
    pub pool_state: String,
    pub space_total: ByteCount,
    pub space_available: ByteCount,
    /// Sessions, in all states.
    pub sessions: u64,
    pub active_commands: u64,
    /// Tool calls under way.
    pub active_tools: u64,
    /// What went wrong lately that was not the caller's fault, oldest first, with its time.
    pub recent_errors: Vec<String>,
    pub uptime: Duration,
}
