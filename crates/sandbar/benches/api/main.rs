//! Cost of the API: a call over the wire against the same call in process, a command from the
//! terminal against `bwrap`, and calls a second.
//!
//! Baseline and subject are measured in turns, so that both see the same load, and the medians are
//! compared. Run it with `make bench`, as root.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run should stop"
)]

mod bare;
mod calls;
mod commands;
mod load;
mod rates;

use sandbar_testing::measure::Report;

type Part = (&'static str, fn(&mut Report));
const PARTS: [Part; 3] = [
    ("commands", commands::measure),
    ("calls", calls::measure),
    ("rates", rates::measure),
];

fn main() {
    // First of all: this binary also serves as the spawner of boxes.
    sandbar_runtime::run_role();
    sandbar_host::run_worker_role();
    let arguments: Vec<String> = std::env::args().collect();
    if arguments
        .get(1)
        .is_some_and(|argument| argument == bare::ROLE)
    {
        return bare::serve(&arguments[2..]);
    }
    // `cargo test --benches` and nextest's listing also run a bench; they measure nothing.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let mut report = Report::default();
    for (name, measure) in PARTS {
        // `cargo bench -p sandbar --bench api -- rates` measures one part.
        let named: Vec<&String> = arguments[1..]
            .iter()
            .filter(|argument| !argument.starts_with('-'))
            .collect();
        if named.is_empty() || named.contains(&&name.to_owned()) {
            measure(&mut report);
        }
    }
    report.print();
}
