//! What the doors cost: a call over the wire against the same call in process, a command from the terminal against
//! `bwrap`, and how many calls a second go through.
//!
//! Baseline and subject take turns, so that both see the same machine, and the middle of each is compared. Run it with
//! `make bench`, as root.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

mod bare;
mod calls;
mod commands;
mod load;
mod rates;

use sandbar_testing::measure::Report;

type Part = (&'static str, fn(&mut Report));
const PARTS: [Part; 3] = [("commands", commands::measure), ("calls", calls::measure), ("rates", rates::measure)];

fn main() {
    // Before anything else: this program is the spawner of boxes, too.
    sandbar_runtime::run_role();
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|argument| argument == bare::ROLE) {
        return bare::serve(&arguments[2..]);
    }
    // `cargo test --benches` and nextest's listing call a bench, too; there is nothing to measure then.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let mut report = Report::default();
    for (name, measure) in PARTS {
        // `cargo bench -p sandbar --bench doors -- rates` measures one part.
        let named: Vec<&String> = arguments[1..].iter().filter(|argument| !argument.starts_with('-')).collect();
        if named.is_empty() || named.contains(&&name.to_owned()) {
            measure(&mut report);
        }
    }
    report.print();
}
