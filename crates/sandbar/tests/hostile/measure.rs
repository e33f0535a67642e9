//! The table of latencies and memory.

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use sandbar_core::RuntimeKind;

use crate::probe::{Call, Sample};

const FAMILIES: &str = "family\truntime\tcall\tattempts\talone_n\talone_median_ms\talone_p99_ms\tattacked_n\tattacked_median_ms\tattacked_p99_ms\tmedian_ratio\tp99_ratio\thost_peak_mib\n";
const ATTEMPTS: &str =
    "attempt\truntime\tseconds\tprobe_calls\tprobe_median_ms\tprobe_max_ms\thost_peak_mib\n";

/// Measurements of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) took: Duration,
    /// Calls of the probe that ended meanwhile.
    pub(crate) probe: Vec<Sample>,
    /// Peak resident memory of the host process.
    pub(crate) peak_mib: f64,
}

/// Writes a family and its attempts to the report files, and to stdout.
pub(crate) fn write(family: &str, runtime: RuntimeKind, alone: &[Sample], attempts: &[Measured]) {
    let peak = attempts
        .iter()
        .map(|attempt| attempt.peak_mib)
        .fold(0.0, f64::max);
    let attacked: Vec<Sample> = attempts
        .iter()
        .flat_map(|attempt| attempt.probe.iter().copied())
        .collect();
    let mut lines = String::new();
    for call in Call::ALL {
        let (alone, attacked) = (milliseconds(alone, call), milliseconds(&attacked, call));
        let quotient = |percent: usize| at(&attacked, percent) / at(&alone, percent);
        let _ = writeln!(
            lines,
            "{family}\t{runtime}\t{}\t{}\t{}\t{:.2}\t{:.2}\t{}\t{:.2}\t{:.2}\t{:.2}\t{:.2}\t{peak:.0}",
            call.as_str(),
            attempts.len(),
            alone.len(),
            at(&alone, 50),
            at(&alone, 99),
            attacked.len(),
            at(&attacked, 50),
            at(&attacked, 99),
            quotient(50),
            quotient(99),
        );
    }
    append("hostile-session.tsv", FAMILIES, &lines);
    let mut each = String::new();
    for attempt in attempts {
        let mut all: Vec<f64> = Call::ALL
            .into_iter()
            .flat_map(|call| milliseconds(&attempt.probe, call))
            .collect();
        all.sort_by(f64::total_cmp);
        let _ = writeln!(
            each,
            "{family}::{}\t{runtime}\t{:.2}\t{}\t{:.2}\t{:.2}\t{:.0}",
            attempt.name,
            attempt.took.as_secs_f64(),
            all.len(),
            at(&all, 50),
            at(&all, 100),
            attempt.peak_mib,
        );
    }
    append("hostile-attempts.tsv", ATTEMPTS, &each);
    print(&format!("{FAMILIES}{lines}\n{ATTEMPTS}{each}"));
}

/// Prints what the test has measured.
#[expect(clippy::print_stdout, reason = "the test's own output")]
pub(crate) fn print(text: &str) {
    println!("{text}");
}

/// Returns the directory of nextest's results in the target directory.
fn directory() -> PathBuf {
    let built = || {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
            .parent()
            .unwrap()
            .into()
    };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(built, PathBuf::from);
    target.join("nextest")
}

/// Appends lines in one write, since families run in parallel.
fn append(name: &str, head: &str, lines: &str) {
    fs::create_dir_all(directory()).unwrap();
    let path = directory().join(name);
    let mut file = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    let head = if file.metadata().unwrap().len() == 0 {
        head
    } else {
        ""
    };
    file.write_all(format!("{head}{lines}").as_bytes()).unwrap();
}

/// Returns the latencies of a call, sorted.
fn milliseconds(samples: &[Sample], call: Call) -> Vec<f64> {
    let mut values: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.call == call)
        .map(|sample| sample.took.as_secs_f64() * 1000.0)
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the value that this percentage of sorted values does not exceed.
fn at(sorted: &[f64], percent: usize) -> f64 {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
