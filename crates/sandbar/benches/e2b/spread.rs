//! Median and 99th percentile of measurements.

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    /// The maximum for fewer than a hundred values.
    pub(crate) p99: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: usize| sorted[(sorted.len() * share / 100).min(sorted.len() - 1)];
        Self {
            median: at(50),
            p99: at(99),
        }
    }
}
