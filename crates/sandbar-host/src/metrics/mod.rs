//! Metrics of a host, in the text format of OpenMetrics 1.0, which Prometheus reads.
//!
//! [`Metrics`] holds the counters and histograms that are updated by events. Gauges are read at
//! each scrape (`scrape.rs`).

#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod registry;
mod scrape;

pub(crate) use registry::Metrics;
