//! gVisor boxes against gVisor itself.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use sandbar_core::{ExecSpec, Resources, SessionId};
use sandbar_runtime::{BoxNetwork, GvisorRuntime, GvisorSettings, Runtime, Sandbox, SandboxSpec};
use sandbar_testing::measure::{Report, alternate, middle, milliseconds};
use serde_json::json;

use crate::subject::run;

const ROUNDS: usize = 30;

/// Tells how long starting a program takes inside, in milliseconds.
const INSIDE: &str = "
import os, time
taken = []
for _ in range(20):
    started = time.perf_counter()
    os.waitpid(os.posix_spawn('/usr/bin/true', ['true'], {}), 0)
    taken.append((time.perf_counter() - started) * 1000)
print(sorted(taken)[len(taken) // 2])
";

pub(crate) fn measure(
    tokio: &tokio::runtime::Runtime,
    root: &Path,
    scratch: &Path,
    report: &mut Report,
) {
    let settings = GvisorSettings::new(
        format!("sandbar-bench-gvisor-{}", std::process::id()),
        scratch.join("boxes"),
    );
    let inside_tokio = tokio.enter();
    let runtime = GvisorRuntime::open(&settings).unwrap();
    let session = SessionId::new("live").unwrap();
    let resources = Resources::default();
    let spec = SandboxSpec {
        skip_pids: 0,
        rights: sandbar_core::RootRights::Bare,
        session: &session,
        root,
        owners: None,
        resources: &resources,
        default_memory: None,
        network: BoxNetwork::Closed,
        trust: None,
    };
    let live = runtime.open_sandbox(&spec).unwrap();
    drop(inside_tokio);
    let rival = Runsc::start(root, scratch);

    let (floor, ours) = alternate(
        5,
        |_| tokio.block_on(inside(&live)),
        |_| middle_exec(tokio, &live),
    );
    report.ratio(
        "gvisor: exec in a live box ÷ fork+exec inside it".into(),
        middle(&ours),
        middle(&floor),
        Some(1.2),
    );
    let (theirs, ours) = alternate(ROUNDS, |_| rival.exec(), |_| exec(tokio, &live));
    report.ratio(
        "gvisor: exec in a live box ÷ runsc exec".into(),
        middle(&ours),
        middle(&theirs),
        Some(0.4),
    );
    let (theirs, ours) = alternate(ROUNDS / 3, |_| rival.run(), |_| exec(tokio, &live));
    report.ratio(
        "gvisor: exec in a live box ÷ runsc run".into(),
        middle(&ours),
        middle(&theirs),
        Some(0.1),
    );

    let _inside_tokio = tokio.enter();
    live.stop().unwrap();
    runtime.close().unwrap();
}

/// The middle of as many as the program inside takes.
fn middle_exec(tokio: &tokio::runtime::Runtime, live: &Arc<dyn Sandbox>) -> f64 {
    middle(&(0..20).map(|_| exec(tokio, live)).collect::<Vec<_>>())
}

fn exec(tokio: &tokio::runtime::Runtime, live: &Arc<dyn Sandbox>) -> f64 {
    tokio.block_on(async {
        let started = Instant::now();
        run(live, ExecSpec::new(["/usr/bin/true"])).await;
        milliseconds(started)
    })
}

async fn inside(live: &Arc<dyn Sandbox>) -> f64 {
    let output = run(live, ExecSpec::new(["python3", "-c", INSIDE])).await;
    String::from_utf8(output).unwrap().trim().parse().unwrap()
}

/// A container of plain `runsc` over the same tree.
struct Runsc {
    state: PathBuf,
    fresh: PathBuf,
}

impl Runsc {
    fn start(root: &Path, scratch: &Path) -> Self {
        let rival = Self {
            state: scratch.join("runsc"),
            fresh: scratch.join("fresh"),
        };
        let live = scratch.join("sleeping");
        write_bundle(&live, root, &["/usr/bin/sleep", "600"]);
        write_bundle(&rival.fresh, root, &["/usr/bin/true"]);
        let status = rival
            .command()
            .args(["run", "--detach", "--bundle"])
            .arg(live)
            .arg("live")
            .status()
            .unwrap();
        assert!(status.success());
        rival
    }

    fn command(&self) -> Command {
        let mut command = Command::new("runsc");
        command
            .arg("--root")
            .arg(&self.state)
            .args(["--network=none", "--ignore-cgroups"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn exec(&self) -> f64 {
        let started = Instant::now();
        assert!(
            self.command()
                .args(["exec", "live", "/usr/bin/true"])
                .status()
                .unwrap()
                .success()
        );
        milliseconds(started)
    }

    fn run(&self) -> f64 {
        let started = Instant::now();
        assert!(
            self.command()
                .args(["run", "--bundle"])
                .arg(&self.fresh)
                .arg("fresh")
                .status()
                .unwrap()
                .success()
        );
        milliseconds(started)
    }
}

impl Drop for Runsc {
    fn drop(&mut self) {
        let _ = self.command().args(["kill", "live", "KILL"]).status();
        let _ = self.command().args(["delete", "--force", "live"]).status();
    }
}

fn write_bundle(bundle: &Path, root: &Path, arguments: &[&str]) {
    fs::create_dir(bundle).unwrap();
    let configuration = json!({
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 0, "gid": 0}, "args": arguments, "env": ["PATH=/usr/bin"], "cwd": "/"},
        "root": {"path": root},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "mount"}]},
    });
    fs::write(bundle.join("config.json"), configuration.to_string()).unwrap();
}
