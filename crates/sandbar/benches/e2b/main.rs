//! Latency of an E2B client from the request for a sandbox to the first output of a command in it:
//! sequential, staggered, and twenty concurrently.
//!
//! The same client calls a server without work in turns; the difference is the cost of the sandbox.
//! The Python SDK is measured the same way if it is installed. Run it with `make bench`, as root.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and tasks as they need"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run should stop"
)]

mod bare;
mod client;
mod sdk;
mod spread;

use std::{net::SocketAddr, time::Duration};

use sandbar_testing::{BareServer, TestServer, TestServerOptions, measure::Report};

use crate::{client::Client, spread::Spread};

const ROUNDS: usize = 30;
const CROWD: usize = 20;
const STAGGER: Duration = Duration::from_millis(200);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments
        .get(1)
        .is_some_and(|argument| argument == bare::ROLE)
    {
        return bare::serve();
    }
    // `cargo test --benches` and nextest's listing also run a bench; they measure nothing.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let options = TestServerOptions::new(env!("CARGO_BIN_EXE_sandbar"));
    let host = TestServer::start(
        &options
            .argument("--storage")
            .argument("btrfs")
            .argument("--runtime")
            .argument("native"),
    );
    let bare = BareServer::start(&[bare::ROLE], b"");
    let token = std::fs::read_to_string(host.data_dir().join("token")).unwrap();
    let address: SocketAddr = host.url().strip_prefix("http://").unwrap().parse().unwrap();
    let subject = Client::new(address, token.trim());
    let baseline = Client::new(bare.address, token.trim());
    let mut report = Report::default();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        for client in [&baseline, &subject] {
            client.first_word().await;
        }
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(baseline.first_word().await);
            ours.push(subject.first_word().await);
        }
        tell(&mut report, "one after the other", &ours, &theirs);
        for (what, stagger) in [
            ("staggered by 200 ms", STAGGER),
            ("20 at once", Duration::ZERO),
        ] {
            let theirs = baseline.crowd(CROWD, stagger).await;
            let ours = subject.crowd(CROWD, stagger).await;
            tell(&mut report, what, &ours, &theirs);
        }
    });
    sdk::measure(&mut report, &host, bare.address);
    report.print();
}

fn tell(report: &mut Report, what: &str, ours: &[f64], theirs: &[f64]) {
    let (ours, theirs) = (Spread::of(ours), Spread::of(theirs));
    report.ratio(
        format!("e2b: create to first word, {what}, median ÷ bare"),
        ours.median,
        theirs.median,
        None,
    );
    report.figure(
        format!("e2b: create to first word, {what}, p99"),
        ours.p99,
        "ms",
        None,
    );
}
