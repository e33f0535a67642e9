//! [`Metrics`]: the counters and histograms of a host.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use sandbar_core::{NetworkDecision, NetworkTraffic, RuntimeKind, StorageKind};

use crate::verb::Verb;

/// Label for tools that do not exist: callers must not be able to create labels.
const UNKNOWN_TOOL: &str = "unknown";

/// Upper bounds of the histogram buckets, in seconds: from a file tool that takes microseconds to a
/// command that takes minutes.
const BUCKET_BOUNDS: [f64; 17] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
    30.0, 120.0, 600.0,
];

/// Names of labels with their values. Values are constants of the program, never input of callers:
/// each new one occupies memory for ever.
pub(super) type Labels<const N: usize> = [(&'static str, &'static str); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// Counters and histograms of one host.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(super) registry: Registry,
    storage: StorageKind,
    runtime: RuntimeKind,
    pub(super) started: Timestamp,
    operations: Counters<2>,
    operation_seconds: Histograms<3>,
    tool_calls: Counters<2>,
    tool_seconds: Histograms<3>,
    pub(crate) snapshots_pruned: Counter,
    pub(crate) sessions_expired: Counter,
    pub(crate) sessions_idle_paused: Counter,
    pub(crate) audit_failures: Counter,
    network_decisions: Counters<2>,
    pub(crate) network_decisions_merged: Counter,
    /// Bytes of destroyed sessions; those of the others are read at each scrape.
    pub(crate) network_sent: Counter,
    pub(crate) network_received: Counter,
}

impl Metrics {
    pub(crate) fn new(storage: StorageKind, runtime: RuntimeKind) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            storage,
            runtime,
            started: Timestamp::now(),
            operations: Family::default(),
            operation_seconds: Family::new_with_constructor(seconds),
            tool_calls: Family::default(),
            tool_seconds: Family::new_with_constructor(seconds),
            snapshots_pruned: Counter::default(),
            sessions_expired: Counter::default(),
            sessions_idle_paused: Counter::default(),
            audit_failures: Counter::default(),
            network_decisions: Family::default(),
            network_decisions_merged: Counter::default(),
            network_sent: Counter::default(),
            network_received: Counter::default(),
        };
        metrics.register();
        metrics
    }

    /// Registers every metric. The registry adds the suffix `_total` to counters and a full stop to
    /// help texts.
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "sandbar_operations",
            "Calls to the host, by name and outcome",
            self.operations.clone(),
        );
        registry.register(
            "sandbar_operation_seconds",
            "Duration of calls to the host",
            self.operation_seconds.clone(),
        );
        registry.register(
            "sandbar_tool_calls",
            "Tool calls, by tool and outcome",
            self.tool_calls.clone(),
        );
        registry.register(
            "sandbar_tool_seconds",
            "Duration of tool calls",
            self.tool_seconds.clone(),
        );
        registry.register(
            "sandbar_network_decisions",
            "Egress decisions, by verdict and protocol",
            self.network_decisions.clone(),
        );
        for (name, help, counter) in [
            (
                "sandbar_snapshots_pruned",
                "Snapshots deleted to keep within the limit",
                &self.snapshots_pruned,
            ),
            (
                "sandbar_sessions_expired",
                "Sessions destroyed or paused because they expired",
                &self.sessions_expired,
            ),
            (
                "sandbar_sessions_idle_paused",
                "Sessions paused because they were idle",
                &self.sessions_idle_paused,
            ),
            (
                "sandbar_audit_failures",
                "Audit log entries that could not be written",
                &self.audit_failures,
            ),
            (
                "sandbar_network_decisions_merged",
                "Egress decisions that share an audit log entry with others",
                &self.network_decisions_merged,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
    }

    /// Counts a call to the host.
    pub(crate) fn operation(&self, verb: Verb, outcome: &'static str, duration: Duration) {
        let operation = ("operation", verb.as_str());
        self.operations
            .get_or_create(&[operation, ("outcome", outcome)])
            .inc();
        self.operation_seconds
            .get_or_create(&self.on(operation))
            .observe(duration.as_secs_f64());
    }

    /// Counts a tool call.
    pub(crate) fn tool_call(&self, tool: &str, outcome: &'static str, duration: Duration) {
        let known = sandbar_tools::list_tools()
            .iter()
            .find(|info| info.name == tool);
        let tool = (
            "tool",
            known.map_or(UNKNOWN_TOOL, |info| info.name.as_str()),
        );
        self.tool_calls
            .get_or_create(&[tool, ("outcome", outcome)])
            .inc();
        self.tool_seconds
            .get_or_create(&self.on(tool))
            .observe(duration.as_secs_f64());
    }

    fn on(&self, what: (&'static str, &'static str)) -> Labels<3> {
        [
            what,
            ("storage", self.storage.as_str()),
            ("runtime", self.runtime.as_str()),
        ]
    }

    /// Counts a decision about a session's network.
    pub(crate) fn network_decision(&self, decision: &NetworkDecision) {
        let labels = [
            ("verdict", decision.verdict.as_str()),
            ("protocol", decision.protocol.as_str()),
        ];
        self.network_decisions.get_or_create(&labels).inc();
    }

    /// Adds the traffic of a destroyed session.
    pub(crate) fn keep_traffic(&self, traffic: NetworkTraffic) {
        self.network_sent.inc_by(traffic.bytes_sent);
        self.network_received.inc_by(traffic.bytes_received);
    }
}

fn seconds() -> Histogram {
    Histogram::new(BUCKET_BOUNDS)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;
    use crate::metrics::fuzzing::metric_label;

    fn written(metrics: &Metrics) -> String {
        let mut text = String::new();
        text::encode(&mut text, &metrics.registry).unwrap();
        text
    }

    /// The value of a sample, which is named with its labels.
    fn value(text: &str, sample: &str) -> f64 {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{sample} is not in\n{text}"))
            .parse()
            .unwrap()
    }

    #[test]
    fn labels_survive_any_character() {
        for text in ["a\"b\\c\nd{e}=,f ü", "", "\\", "\\n", "\"} 1"] {
            metric_label(text.as_bytes());
        }
    }

    #[test]
    fn counters_and_histograms_are_written_with_their_labels() {
        let metrics = Metrics::new(StorageKind::Btrfs, RuntimeKind::Native);
        let bound = Duration::from_secs_f64(BUCKET_BOUNDS[3]);
        for took in [
            Duration::ZERO,
            bound,
            bound + Duration::from_nanos(1),
            Duration::from_hours(1),
        ] {
            metrics.operation(Verb::Exec, "ok", took);
        }
        metrics.operation(Verb::Exec, "SessionPaused", Duration::from_millis(1));
        metrics.tool_call("bash", "ok", Duration::from_millis(1));
        metrics.tool_call("no such tool", "InvalidArgument", Duration::from_millis(1));
        metrics.snapshots_pruned.inc_by(3);
        let text = written(&metrics);
        let on = "operation=\"exec\",storage=\"btrfs\",runtime=\"native\"";
        for (sample, expected) in [
            (
                "sandbar_operations_total{operation=\"exec\",outcome=\"ok\"}".to_owned(),
                4.0,
            ),
            (
                "sandbar_operations_total{operation=\"exec\",outcome=\"SessionPaused\"}".to_owned(),
                1.0,
            ),
            (
                "sandbar_tool_calls_total{tool=\"bash\",outcome=\"ok\"}".to_owned(),
                1.0,
            ),
            (
                "sandbar_tool_calls_total{tool=\"unknown\",outcome=\"InvalidArgument\"}".to_owned(),
                1.0,
            ),
            ("sandbar_snapshots_pruned_total".to_owned(), 3.0),
            ("sandbar_sessions_expired_total".to_owned(), 0.0),
            // A bound belongs to its own bucket.
            (
                format!("sandbar_operation_seconds_bucket{{le=\"0.001\",{on}}}"),
                3.0,
            ),
            (
                format!("sandbar_operation_seconds_bucket{{le=\"0.0025\",{on}}}"),
                4.0,
            ),
            (
                format!("sandbar_operation_seconds_bucket{{le=\"600.0\",{on}}}"),
                4.0,
            ),
            (
                format!("sandbar_operation_seconds_bucket{{le=\"+Inf\",{on}}}"),
                5.0,
            ),
            (format!("sandbar_operation_seconds_count{{{on}}}"), 5.0),
        ] {
            assert!(
                (value(&text, &sample) - expected).abs() < f64::EPSILON,
                "{sample}\n{text}"
            );
        }
        assert!(
            (value(&text, &format!("sandbar_operation_seconds_sum{{{on}}}")) - 3600.003).abs()
                < 1e-6
        );
        assert!(
            !text.contains("no such tool") && !text.contains(".."),
            "{text}"
        );
    }
}
