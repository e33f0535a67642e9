//! Taking turns, taking the middle, and printing.

#![expect(clippy::print_stdout, reason = "benchmarks print what they measured")]

use std::time::Instant;

pub fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

/// Runs both in turns; returns what each measured, without the first round, which warms up.
pub fn alternate(
    rounds: usize,
    mut baseline: impl FnMut(usize) -> f64,
    mut subject: impl FnMut(usize) -> f64,
) -> (Vec<f64>, Vec<f64>) {
    let pairs: Vec<(f64, f64)> = (0..=rounds)
        .map(|round| (baseline(round), subject(round)))
        .collect();
    pairs.into_iter().skip(1).unzip()
}

/// The value half of the others lie below.
pub fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Measurements, printed at the end.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<[String; 4]>,
}

impl Report {
    /// `subject ÷ baseline`, both in milliseconds.
    pub fn ratio(&mut self, what: String, subject: f64, baseline: f64, aim: Option<f64>) {
        let ratio = subject / baseline;
        self.line(
            what,
            format!("{ratio:.2}"),
            ratio,
            aim,
            format!("{subject:.3} ms ÷ {baseline:.3} ms"),
        );
    }

    pub fn figure(&mut self, what: String, value: f64, unit: &str, aim: Option<f64>) {
        self.line(
            what,
            format!("{value:.2} {unit}"),
            value,
            aim,
            String::new(),
        );
    }

    fn line(&mut self, what: String, shown: String, value: f64, aim: Option<f64>, detail: String) {
        let verdict = aim.map_or_else(String::new, |aim| {
            format!(
                "aim ≤ {aim} {}",
                if value <= aim { "met" } else { "MISSED" }
            )
        });
        println!("{what:<62} {shown:>10}  {verdict:<16} {detail}");
        self.lines.push([what, shown, verdict, detail]);
    }

    /// The whole table once more, without what the storage said in between.
    pub fn print(&self) {
        println!("\nsummary");
        for [what, shown, verdict, detail] in &self.lines {
            println!("  {what:<62} {shown:>10}  {verdict:<16} {detail}");
        }
    }
}
