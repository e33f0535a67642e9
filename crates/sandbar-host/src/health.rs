//! How the host is.

use std::sync::atomic::Ordering;

use sandbar_core::{ByteCount, Error, ErrorCode, Health, HealthStatus, Result};

use crate::{
    Host,
    host::Inner,
    verb::{Call, Verb},
};

impl Host {
    /// Asks the storage how it is. A storage that does not answer is unhealthy, not an error.
    pub async fn health(&self) -> Health {
        let outcome = self.run(Call::of(Verb::HealthCheck), |inner| Ok(inner.health())).await;
        outcome.unwrap_or_else(|error| Health {
            status: HealthStatus::Unhealthy,
            reasons: vec![error.chain()],
            pool_state: "unknown".into(),
            space_total: ByteCount(0),
            space_available: ByteCount(0),
            sessions: 0,
            active_commands: 0,
            active_tools: 0,
            recent_errors: Vec::new(),
            uptime: std::time::Duration::ZERO,
        })
    }
}

impl Inner {
    fn health(&self) -> Health {
        let mut health = Health {
            status: HealthStatus::Healthy,
            reasons: Vec::new(),
            pool_state: "unknown".into(),
            space_total: ByteCount(0),
            space_available: ByteCount(0),
            sessions: self.session_count() as u64,
            active_commands: self.active_commands.load(Ordering::Relaxed),
            active_tools: self.active_tools(),
            recent_errors: self.incidents.list(),
            uptime: self.started.elapsed(),
        };
        let mut worsen = |status: HealthStatus, reason: String| {
            health.status = health.status.max(status);
            health.reasons.push(reason);
        };
        match self.storage.space() {
            Err(error) => worsen(HealthStatus::Unhealthy, format!("the storage does not answer: {}", error.chain())),
            Ok(space) => {
                let share = space.used_share();
                let taken = format!("{:.0}% of {} is taken", share * 100.0, space.total);
                if !space.healthy {
                    worsen(HealthStatus::Unhealthy, format!("the pool is {}", space.state));
                }
                if share >= self.config.pool_space_crit_threshold {
                    worsen(HealthStatus::Unhealthy, format!("{taken}: no new sessions"));
                } else if share >= self.config.pool_space_warn_threshold {
                    worsen(HealthStatus::Degraded, taken);
                }
                health.pool_state = space.state;
                health.space_total = space.total;
                health.space_available = space.available;
            }
        }
        health
    }

    /// Refuses what needs room when there is hardly any.
    pub(crate) fn require_space(&self) -> Result<()> {
        let space = self.storage.space()?;
        let share = space.used_share();
        if share >= self.config.pool_space_crit_threshold {
            return Err(Error::new(
                ErrorCode::StorageFull,
                format!("{:.0}% of the pool is taken, {} of {} are left", share * 100.0, space.available, space.total),
            )
            .with_hint("destroy sessions, delete snapshots, or make the pool larger"));
        }
        Ok(())
    }
}
