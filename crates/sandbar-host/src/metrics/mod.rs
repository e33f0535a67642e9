//! What a host counts and measures, and how monitoring reads it.
//!
//! [`Metrics`] holds what has to be counted while it happens. What can be asked for is asked for when somebody reads
//! (`scrape.rs`). The text is that of Prometheus, version 0.0.4.

mod exposition;
mod instruments;
#[cfg(test)]
mod parser;
mod scrape;

use std::time::Duration;

use jiff::Timestamp;
use sandbar_core::{NetworkDecision, NetworkTraffic, RuntimeKind, StorageKind};

pub use exposition::metric_label;

use self::{
    exposition::Exposition,
    instruments::{Counter, Family, Histogram},
};
use crate::verb::Verb;

/// The label of tools that do not exist: callers must not be able to make up labels.
const UNKNOWN_TOOL: &str = "unknown";

/// Counters and histograms of one host. Cheap enough for every call.
#[derive(Debug)]
pub(crate) struct Metrics {
    storage: StorageKind,
    runtime: RuntimeKind,
    started: Timestamp,
    operations: Family<2, Counter>,
    operation_seconds: Family<3, Histogram>,
    tool_calls: Family<2, Counter>,
    tool_seconds: Family<3, Histogram>,
    pub(crate) snapshots_pruned: Counter,
    pub(crate) sessions_expired: Counter,
    pub(crate) sessions_idle_paused: Counter,
    pub(crate) audit_failures: Counter,
    network_decisions: Family<2, Counter>,
    pub(crate) network_decisions_merged: Counter,
    /// Bytes of sessions that are no more; those of the others are asked for.
    pub(crate) network_sent: Counter,
    pub(crate) network_received: Counter,
}

impl Metrics {
    pub(crate) fn new(storage: StorageKind, runtime: RuntimeKind) -> Self {
        Self {
            storage,
            runtime,
            started: Timestamp::now(),
            operations: Family::new(["operation", "outcome"]),
            operation_seconds: Family::new(["operation", "storage", "runtime"]),
            tool_calls: Family::new(["tool", "outcome"]),
            tool_seconds: Family::new(["tool", "storage", "runtime"]),
            snapshots_pruned: Counter::default(),
            sessions_expired: Counter::default(),
            sessions_idle_paused: Counter::default(),
            audit_failures: Counter::default(),
            network_decisions: Family::new(["verdict", "protocol"]),
            network_decisions_merged: Counter::default(),
            network_sent: Counter::default(),
            network_received: Counter::default(),
        }
    }

    /// Something was asked for, and this came of it.
    pub(crate) fn operation(&self, verb: Verb, outcome: &'static str, duration: Duration) {
        self.operations.with([verb.as_str(), outcome], |counter| counter.add(1));
        let labels = [verb.as_str(), self.storage.as_str(), self.runtime.as_str()];
        self.operation_seconds.with(labels, |histogram| histogram.observe(duration));
    }

    /// A tool was called, and this came of it.
    pub(crate) fn tool_call(&self, tool: &str, outcome: &'static str, duration: Duration) {
        let known = sandbar_tools::list_tools().iter().find(|info| info.name == tool);
        let tool = known.map_or(UNKNOWN_TOOL, |info| info.name.as_str());
        self.tool_calls.with([tool, outcome], |counter| counter.add(1));
        let labels = [tool, self.storage.as_str(), self.runtime.as_str()];
        self.tool_seconds.with(labels, |histogram| histogram.observe(duration));
    }

    /// Something was decided about a session's network.
    pub(crate) fn network_decision(&self, decision: &NetworkDecision) {
        let labels = [decision.verdict.as_str(), decision.protocol.as_str()];
        self.network_decisions.with(labels, |counter| counter.add(1));
    }

    /// A session is no more; this went through for it.
    pub(crate) fn keep_traffic(&self, traffic: NetworkTraffic) {
        self.network_sent.add(traffic.bytes_sent);
        self.network_received.add(traffic.bytes_received);
    }

    /// Everything that was counted.
    fn write(&self, text: &mut Exposition) {
        self.operations.write(text, "sandbar_operations_total", "Calls to the host, by name and outcome.");
        self.operation_seconds.write(text, "sandbar_operation_seconds", "How long calls to the host took.");
        self.tool_calls.write(text, "sandbar_tool_calls_total", "Tool calls that were done, by tool and outcome.");
        self.tool_seconds.write(text, "sandbar_tool_seconds", "How long tool calls took.");
        let help = "What was decided about connections of sessions, by verdict and protocol.";
        self.network_decisions.write(text, "sandbar_network_decisions_total", help);
        for (name, help, counter) in [
            ("sandbar_snapshots_pruned_total", "Snapshots removed to keep within the limit.", &self.snapshots_pruned),
            (
                "sandbar_sessions_expired_total",
                "Sessions destroyed or paused because their time was up.",
                &self.sessions_expired,
            ),
            (
                "sandbar_sessions_idle_paused_total",
                "Sessions paused because nobody used them.",
                &self.sessions_idle_paused,
            ),
            (
                "sandbar_audit_failures_total",
                "Entries that could not be written to an audit log.",
                &self.audit_failures,
            ),
            (
                "sandbar_network_decisions_merged_total",
                "Decisions that share their entry in an audit log with others.",
                &self.network_decisions_merged,
            ),
        ] {
            text.counter(name, help, counter.value());
        }
    }
}
