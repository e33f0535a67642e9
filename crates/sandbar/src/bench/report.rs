//! Report of the measurements, as a table and as JSON.

use std::time::Duration;

use sandbar_core::Capabilities;
use serde::Serialize;

use super::{baseline::Baselines, rounds::Times};
use crate::{failure::Outcome, terminal::output};

/// Baseline of a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Against {
    Process,
    Bwrap,
    Read,
    Call,
    Other(&'static str, Duration),
}

/// One measured operation.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    what: &'static str,
    times: Times,
    against: Vec<Against>,
}

impl Row {
    pub(crate) const fn new(name: &'static str, what: &'static str, times: Times) -> Self {
        Self {
            name,
            what,
            times,
            against: Vec::new(),
        }
    }

    pub(crate) fn against(mut self, against: impl Into<Vec<Against>>) -> Self {
        self.against = against.into();
        self
    }
}

/// All measurements.
#[derive(Debug)]
pub(crate) struct Report {
    url: String,
    storage: &'static str,
    runtime: &'static str,
    baselines: Baselines,
    rows: Vec<Row>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ReportView<'a> {
    host: HostView<'a>,
    baselines: Vec<ResultView>,
    results: Vec<ResultView>,
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
struct HostView<'a> {
    url: &'a str,
    storage_backend: &'static str,
    container_runtime: &'static str,
}

#[derive(Debug, Serialize)]
struct ResultView {
    name: &'static str,
    what: &'static str,
    rounds: usize,
    median_seconds: f64,
    p95_seconds: f64,
    ratios: Vec<RatioView>,
}

#[derive(Debug, Serialize)]
struct RatioView {
    against: &'static str,
    ratio: f64,
}

impl Report {
    pub(crate) fn new(url: &str, capabilities: &Capabilities, baselines: Baselines) -> Self {
        Self {
            url: url.to_owned(),
            storage: capabilities.storage.as_str(),
            runtime: capabilities.runtime.as_str(),
            baselines,
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    fn baseline_rows(&self) -> Vec<(&'static str, &'static str, &Times)> {
        let Baselines {
            process,
            bwrap,
            read,
            call,
        } = &self.baselines;
        let mut rows = vec![("process", "run `true` here", process)];
        rows.extend(
            bwrap
                .as_ref()
                .map(|bwrap| ("bwrap", "run `true` in bwrap", bwrap)),
        );
        rows.extend([
            ("read", "read a file of 4 KiB here", read),
            ("call", "a call that does nothing", call),
        ]);
        rows
    }

    /// Returns the name of the baseline and the ratio to it; `None` if it was not measured.
    fn ratio(&self, row: &Row, against: Against) -> Option<(&'static str, f64)> {
        let (name, time) = match against {
            Against::Process => ("a process here", self.baselines.process.median()),
            Against::Bwrap => ("bwrap", self.baselines.bwrap.as_ref()?.median()),
            Against::Read => ("a read here", self.baselines.read.median()),
            Against::Call => ("an empty call", self.baselines.call.median()),
            Against::Other(name, time) => (name, time),
        };
        Some((
            name,
            row.times.median().as_secs_f64() / time.as_secs_f64().max(f64::EPSILON),
        ))
    }

    fn ratios(&self, row: &Row) -> Vec<(&'static str, f64)> {
        row.against
            .iter()
            .filter_map(|against| self.ratio(row, *against))
            .collect()
    }

    pub(crate) fn print_table(&self) -> Outcome<()> {
        let baselines = self.baseline_rows().into_iter().map(|(_, what, times)| {
            [
                what.to_owned(),
                readable(times.median()),
                readable(times.p95()),
                "(baseline)".to_owned(),
            ]
        });
        let results = self.rows.iter().map(|row| {
            let ratios: Vec<String> = self
                .ratios(row)
                .into_iter()
                .map(|(name, ratio)| format!("{} {name}", times_as_long(ratio)))
                .collect();
            [
                row.what.to_owned(),
                readable(row.times.median()),
                readable(row.times.p95()),
                ratios.join(", "),
            ]
        });
        output::table(
            ["WHAT", "MEDIAN", "95%", "AGAINST"],
            baselines.chain(results),
        )?;
        output::say(format_args!(
            "storage {}, runtime {}, at {}",
            self.storage, self.runtime, self.url
        ));
        if self.baselines.bwrap.is_none() {
            output::say(
                "note: bwrap is not installed or does not work here; no comparison with it",
            );
        }
        self.notes
            .iter()
            .for_each(|note| output::say(format_args!("note: {note}")));
        Ok(())
    }

    pub(crate) fn print_json(&self) -> Outcome<()> {
        let view = |name, what, times: &Times, ratios: Vec<(&'static str, f64)>| ResultView {
            name,
            what,
            rounds: times.count(),
            median_seconds: times.median().as_secs_f64(),
            p95_seconds: times.p95().as_secs_f64(),
            ratios: ratios
                .into_iter()
                .map(|(against, ratio)| RatioView { against, ratio })
                .collect(),
        };
        output::json(&ReportView {
            host: HostView {
                url: &self.url,
                storage_backend: self.storage,
                container_runtime: self.runtime,
            },
            baselines: self
                .baseline_rows()
                .into_iter()
                .map(|(name, what, times)| view(name, what, times, Vec::new()))
                .collect(),
            results: self
                .rows
                .iter()
                .map(|row| view(row.name, row.what, &row.times, self.ratios(row)))
                .collect(),
            notes: &self.notes,
        })
    }
}

/// Formats a time with two or three digits: `1.3 ms`.
fn readable(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (amount, unit) = if seconds < 1e-3 {
        (seconds * 1e6, "µs")
    } else if seconds < 1.0 {
        (seconds * 1e3, "ms")
    } else {
        (seconds, "s")
    };
    if amount < 10.0 {
        format!("{amount:.1} {unit}")
    } else {
        format!("{amount:.0} {unit}")
    }
}

fn times_as_long(ratio: f64) -> String {
    if ratio < 10.0 {
        format!("{ratio:.2} ×")
    } else {
        format!("{ratio:.0} ×")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ratios_are_short() {
        for (microseconds, words) in [
            (7, "7.0 µs"),
            (850, "850 µs"),
            (1_340, "1.3 ms"),
            (25_000, "25 ms"),
            (2_500_000, "2.5 s"),
        ] {
            assert_eq!(readable(Duration::from_micros(microseconds)), words);
        }
        assert_eq!(
            (times_as_long(1.304).as_str(), times_as_long(42.3).as_str()),
            ("1.30 ×", "42 ×")
        );
    }
}
