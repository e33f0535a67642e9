//! Health of a host.

use std::{fmt, time::Duration};

use crate::ByteCount;

/// Overall health of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    Healthy,
    /// It works, but needs attention.
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

/// Health of a host, with reasons and figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    pub status: HealthStatus,
    /// Reasons for not being healthy.
    pub reasons: Vec<String>,
    /// State of the storage in its own terms: `ONLINE`, `DEGRADED`, `read-only`.
    pub pool_state: String,
    pub space_total: ByteCount,
    pub space_available: ByteCount,
    /// Sessions, in all states.
    pub sessions: u64,
    pub active_commands: u64,
    /// Running tool calls.
    pub active_tools: u64,
    /// Recent internal errors with their time, oldest first.
    pub recent_errors: Vec<String>,
    pub uptime: Duration,
}
