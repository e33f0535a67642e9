//! Health of the host.

use std::sync::atomic::Ordering;

use sandbar_core::{ByteCount, Error, ErrorCode, Health, HealthStatus, Result};

use crate::{
    Host,
    engine::Engine,
    verb::{Call, Verb},
};

impl Host {
    /// Returns the health of the host. A storage that fails makes it unhealthy and is no error.
    pub async fn health(&self) -> Health {
        let outcome = self
            .run(Call::of(Verb::HealthCheck), |engine| Ok(engine.health()))
            .await;
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

impl Engine {
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
            Err(error) => worsen(
                HealthStatus::Unhealthy,
                format!("storage is not available: {}", error.chain()),
            ),
            Ok(space) => {
                let share = space.used_share();
                let used = format!("{:.0}% of {} is used", share * 100.0, space.total);
                if !space.healthy {
                    worsen(HealthStatus::Unhealthy, format!("pool is {}", space.state));
                }
                if share >= self.config.pool_space_crit_threshold {
                    worsen(HealthStatus::Unhealthy, format!("{used}: no new sessions"));
                } else if share >= self.config.pool_space_warn_threshold {
                    worsen(HealthStatus::Degraded, used);
                }
                health.pool_state = space.state;
                health.space_total = space.total;
                health.space_available = space.available;
            }
        }
        health
    }

    /// Refuses an operation that needs space when the pool is nearly full.
    pub(crate) fn require_space(&self) -> Result<()> {
        let space = self.storage.space()?;
        let share = space.used_share();
        if share >= self.config.pool_space_crit_threshold {
            return Err(Error::new(
                ErrorCode::StorageFull,
                format!(
                    "pool is {:.0}% full, {} of {} are left",
                    share * 100.0,
                    space.available,
                    space.total
                ),
            )
            .with_hint("destroy sessions, delete snapshots, or enlarge the pool"));
        }
        Ok(())
    }
}
