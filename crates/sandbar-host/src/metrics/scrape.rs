//! Everything a host can be asked about itself, at the moment somebody asks.

use std::sync::atomic::Ordering;

use sandbar_core::{Result, SessionState};

use super::exposition::{Exposition, Kind};
use crate::{
    Host,
    host::{Inner, blocking},
};

impl Host {
    /// The metrics of this host, in the text format of Prometheus.
    pub async fn metrics_text(&self) -> String {
        let inner = std::sync::Arc::clone(self.inner());
        let written = blocking(move || Ok(inner.metrics_text())).await;
        written.unwrap_or_else(|error| {
            tracing::error!(error = error.chain(), "could not write the metrics");
            String::new()
        })
    }
}

impl Inner {
    fn metrics_text(&self) -> String {
        let mut text = Exposition::default();
        self.metrics.write(&mut text);
        self.write_sessions(&mut text);
        self.write_storage(&mut text);
        self.write_traffic(&mut text);
        let commands = self.active_commands.load(Ordering::Relaxed);
        text.gauge("sandbar_commands_active", "Commands somebody waits for.", commands);
        text.gauge("sandbar_tools_active", "Tool calls under way.", self.active_tools());
        self.write_build(&mut text);
        text.into_text()
    }

    /// A state without a session is told, too: an alert must tell zero from nothing.
    fn write_sessions(&self, text: &mut Exposition) {
        let counts = match self.state.session_counts() {
            Ok(counts) => counts,
            Err(error) => return tracing::warn!(error = error.chain(), "could not count the sessions"),
        };
        let name = "sandbar_sessions";
        text.family(name, Kind::Gauge, "Sessions, by state.");
        for state in SessionState::ALL {
            text.sample(name, &[("state", state.as_str())], counts.get(state.as_str()).copied().unwrap_or(0));
        }
    }

    /// A storage that does not answer has no size, and is not healthy.
    fn write_storage(&self, text: &mut Exposition) {
        let space: Result<_> = self.storage.space();
        let healthy = space.as_ref().is_ok_and(|space| space.healthy);
        text.gauge("sandbar_pool_healthy", "Whether the pool is as it should be.", u8::from(healthy));
        if let Ok(space) = space {
            text.gauge("sandbar_storage_total_bytes", "Size of the pool.", space.total.get());
            text.gauge("sandbar_storage_available_bytes", "What is left of the pool.", space.available.get());
            text.gauge("sandbar_storage_used_ratio", "Share of the pool that is taken.", space.used_share());
        }
    }

    fn write_traffic(&self, text: &mut Exposition) {
        let traffic = self.traffic();
        let name = "sandbar_network_bytes_total";
        text.family(name, Kind::Counter, "Bytes that went through the gateway, by direction.");
        text.sample(name, &[("direction", "sent")], traffic.bytes_sent);
        text.sample(name, &[("direction", "received")], traffic.bytes_received);
        text.gauge("sandbar_network_connections", "Connections of sessions that are open.", traffic.connections);
    }

    fn write_build(&self, text: &mut Exposition) {
        let name = "sandbar_build_info";
        text.family(name, Kind::Gauge, "Which program this is, and what it stands on.");
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("storage", self.storage.kind().as_str()),
            ("runtime", self.runtime.kind().as_str()),
        ];
        text.sample(name, &labels, 1);
        let started = self.metrics.started.as_millisecond();
        let started = format!("{}.{:03}", started / 1000, started % 1000);
        text.gauge("sandbar_process_start_time_seconds", "When the host started, since 1970.", started);
        let uptime = self.started.elapsed().as_secs_f64();
        text.gauge("sandbar_uptime_seconds", "How long the host runs.", uptime);
    }
}
