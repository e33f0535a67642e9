//! Gauges that are read at each scrape.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use prometheus_client::{
    encoding::text,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        info::Info,
    },
    registry::Registry,
};
use sandbar_core::{Result, SessionState};

use super::registry::Labels;
use crate::{Host, blocking::blocking, engine::Engine};

impl Host {
    /// Returns the metrics of this host, in the text format of OpenMetrics 1.0.
    pub async fn metrics_text(&self) -> String {
        let engine = Arc::clone(self.engine());
        let written = blocking(move || Ok(engine.metrics_text().unwrap_or_default())).await;
        written.unwrap_or_else(|error| {
            tracing::error!(error = error.chain(), "could not write the metrics");
            String::new()
        })
    }
}

impl Engine {
    fn metrics_text(&self) -> Result<String, fmt::Error> {
        let mut now = Registry::default();
        self.register_sessions(&mut now);
        self.register_storage(&mut now);
        self.register_traffic(&mut now);
        self.register_build(&mut now);
        let mut text = String::new();
        text::encode_registry(&mut text, &self.metrics.registry)?;
        text::encode(&mut text, &now)?;
        Ok(text)
    }

    /// Registers the gauges of sessions, with zero for empty states: an alert must distinguish zero
    /// from a missing sample.
    fn register_sessions(&self, registry: &mut Registry) {
        let commands = ConstGauge::new(self.active_commands.load(Ordering::Relaxed));
        registry.register(
            "sandbar_commands_active",
            "Commands that callers wait for",
            commands,
        );
        registry.register(
            "sandbar_tools_active",
            "Tool calls in progress",
            ConstGauge::new(self.active_tools()),
        );
        let counts = match self.state.session_counts() {
            Ok(counts) => counts,
            Err(error) => {
                return tracing::warn!(error = error.chain(), "could not count the sessions");
            }
        };
        let sessions = Family::<Labels<1>, Gauge<u64, AtomicU64>>::default();
        for state in SessionState::ALL {
            let count = counts.get(state.as_str()).copied().unwrap_or(0);
            sessions
                .get_or_create(&[("state", state.as_str())])
                .set(count);
        }
        registry.register("sandbar_sessions", "Sessions, by state", sessions);
    }

    /// Registers the gauges of the pool. A storage that fails is not healthy and has no size.
    fn register_storage(&self, registry: &mut Registry) {
        let space: Result<_> = self.storage.space();
        let healthy = ConstGauge::new(u64::from(space.as_ref().is_ok_and(|space| space.healthy)));
        registry.register(
            "sandbar_pool_healthy",
            "Whether the pool is healthy",
            healthy,
        );
        if let Ok(space) = space {
            let (total, available) = (
                ConstGauge::new(space.total.get()),
                ConstGauge::new(space.available.get()),
            );
            registry.register("sandbar_storage_total_bytes", "Size of the pool", total);
            registry.register(
                "sandbar_storage_available_bytes",
                "Available space of the pool",
                available,
            );
            let share = ConstGauge::new(space.used_share());
            registry.register(
                "sandbar_storage_used_ratio",
                "Used share of the pool",
                share,
            );
        }
    }

    fn register_traffic(&self, registry: &mut Registry) {
        let traffic = self.traffic();
        let bytes = Family::<Labels<1>, Counter>::default();
        bytes
            .get_or_create(&[("direction", "sent")])
            .inc_by(traffic.bytes_sent);
        bytes
            .get_or_create(&[("direction", "received")])
            .inc_by(traffic.bytes_received);
        registry.register(
            "sandbar_network_bytes",
            "Bytes through the egress gateway, by direction",
            bytes,
        );
        let connections = ConstGauge::new(traffic.connections);
        registry.register(
            "sandbar_network_connections",
            "Open egress connections of sessions",
            connections,
        );
    }

    fn register_build(&self, registry: &mut Registry) {
        let build: Labels<3> = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("storage", self.storage.kind().as_str()),
            ("runtime", self.runtime.kind().as_str()),
        ];
        // The registry adds the suffix `_info`.
        registry.register(
            "sandbar_build",
            "Version of the program, with its storage and runtime",
            Info::new(build),
        );
        let started = ConstGauge::new(self.metrics.started.as_duration().as_secs_f64());
        registry.register(
            "sandbar_process_start_time_seconds",
            "Start time of the host, in seconds since 1970",
            started,
        );
        let uptime = ConstGauge::new(self.started.elapsed().as_secs_f64());
        registry.register(
            "sandbar_uptime_seconds",
            "Time since the host started",
            uptime,
        );
    }
}
