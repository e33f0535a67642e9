//! Tier 1 tools against plain system calls, in one run: ratios, not times. Run it with `make
//! bench`, as root.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run should stop"
)]

use std::{
    fs::File,
    io::Read,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use sandbar_core::{Error, ExecSpec, Resources, Result};
use sandbar_runtime::RunningCommand;
use sandbar_testing::{
    Backend, StorageFixture,
    measure::{Report, alternate, middle, milliseconds},
};
use sandbar_tools::{CommandRunner, PreparedCall, ToolContext};
use sandbar_tree::SessionTree;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 300;
/// Reads in one measurement, since one is too short for the clock.
const READS: usize = 50;

fn main() {
    // `cargo test --benches` and nextest's listing call a bench, too; there is nothing to measure
    // then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let fixture = StorageFixture::new(Backend::BtrfsImage);
    let volume = fixture.volume("s");
    let root = fixture.storage.mount(&volume).unwrap();
    let path = root.join("workspace/file");
    std::fs::write(&path, "0123456789abcde\n".repeat(256)).unwrap();
    let tree = SessionTree::open(&root, None).unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut report = Report::default();

    let (plain, confined) = alternate(ROUNDS, |_| plain_reads(&path), |_| confined_reads(&tree));
    report.ratio(
        "tier 1: confined read of 4 KiB ÷ open+read".into(),
        middle(&confined),
        middle(&plain),
        Some(3.0),
    );
    let (plain, tool) = alternate(
        ROUNDS,
        |_| plain_reads(&path),
        |_| tokio.block_on(tool_reads(&tree)),
    );
    report.ratio(
        "tier 1: read_file, a whole call with numbered lines ÷ open+read".into(),
        middle(&tool),
        middle(&plain),
        None,
    );
    report.print();
}

fn plain_reads(path: &Path) -> f64 {
    let mut buffer = [0; 8192];
    let started = Instant::now();
    for _ in 0..READS {
        assert_eq!(File::open(path).unwrap().read(&mut buffer).unwrap(), 4096);
    }
    milliseconds(started)
}

fn confined_reads(tree: &SessionTree) -> f64 {
    let mut buffer = [0; 8192];
    let started = Instant::now();
    for _ in 0..READS {
        let (mut file, _) = tree.open_file(Path::new("/workspace/file")).unwrap();
        assert_eq!(file.read(&mut buffer).unwrap(), 4096);
    }
    milliseconds(started)
}

async fn tool_reads(tree: &SessionTree) -> f64 {
    let started = Instant::now();
    for _ in 0..READS {
        let Value::Object(params) = json!({"path": "file"}) else {
            unreachable!()
        };
        let (progress, _told) = mpsc::channel(1);
        let context = ToolContext {
            tree: tree.clone(),
            runner: Arc::new(NoRunner),
            walks: None,
            resources: Resources::default(),
            time_limit: Duration::from_mins(1),
            progress,
            cancelled: CancellationToken::new(),
            shell: Arc::default(),
        };
        let response = PreparedCall::new("read_file", params)
            .unwrap()
            .run(&context)
            .await
            .unwrap();
        assert!(!response.is_error);
    }
    milliseconds(started)
}

#[derive(Debug)]
struct NoRunner;

impl CommandRunner for NoRunner {
    fn start(&self, _: ExecSpec) -> BoxFuture<'_, Result<RunningCommand>> {
        Box::pin(async { Err(Error::internal("there is no sandbox here")) })
    }
}
