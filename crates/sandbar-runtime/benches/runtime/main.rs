//! Runtimes against raw baselines, in one run: ratios, not times.
//!
//! Baseline and subject take turns, so that both see the same machine, and the middle of each is
//! compared. Run it with `make bench`, as root.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run should stop"
)]

mod gvisor;
mod network;
mod rivals;
mod subject;

use sandbar_testing::{
    Floor,
    measure::{Report, alternate, middle},
};

const ROUNDS: usize = 200;

fn main() {
    // `cargo test --benches` and nextest's listing call a bench, too; there is nothing to measure
    // then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    // Before the first thread: the floor is what a small process with one thread can do.
    let mut floor = Floor::start();
    let subject = subject::Subject::open();
    let scratch = tempfile::tempdir().unwrap();
    let mut report = Report::default();

    let (raw, ours) = alternate(ROUNDS, |_| floor.exec(), |_| subject.exec());
    report.ratio(
        "native: exec in a live box ÷ vfork+exec".into(),
        middle(&ours),
        middle(&raw),
        Some(1.3),
    );

    let (raw, ours) = alternate(ROUNDS, |_| floor.new_box(), |_| subject.first_output());
    report.ratio(
        "native: new box to first output ÷ raw clone3+pivot_root+exec".into(),
        middle(&ours),
        middle(&raw),
        Some(1.3),
    );
    for (name, rival) in rivals::all(subject.root(), scratch.path()) {
        let (theirs, ours) = alternate(ROUNDS / 4, |_| rival.run(), |_| subject.first_output());
        report.ratio(
            format!("native: new box to first output ÷ {name}"),
            middle(&ours),
            middle(&theirs),
            Some(1.0),
        );
    }
    report.figure(
        "native: private memory of an idle box".into(),
        subject.memory_of_boxes(1),
        "KiB",
        Some(300.0),
    );
    report.figure(
        "native: private memory of an idle box, of 1000".into(),
        subject.memory_of_boxes(1000),
        "KiB",
        Some(300.0),
    );
    network::measure(ROUNDS, &mut report);
    gvisor::measure(subject.tokio(), subject.root(), scratch.path(), &mut report);
    report.print();
}
