//! A host, in process, against the sum of what it is made of: ratios, not times.
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

mod cpu_time;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sandbar_core::{
    BaseName, ExecEvent, ExecSpec, ForkRequest, LaterSnapshots, Quiesce, RuntimeKind, SessionId,
    SessionSpec, SnapshotName,
};
use sandbar_host::{Host, HostConfig};
use sandbar_testing::{
    Backend, Floor, StorageFixture,
    measure::{Report, alternate, middle, milliseconds},
    raw_storage,
};

const ROUNDS: usize = 100;
/// Sessions made for the rate, and at the same time.
const BURST: usize = 400;
const AT_ONCE: usize = 8;
const PAUSED: usize = 1000;

fn main() {
    // `cargo test --benches` and nextest's listing call a bench, too; there is nothing to measure
    // then.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    // Before the first thread: the floor is what a small process with one thread can do.
    let mut floor = Floor::start();
    let storage = StorageFixture::with_size(Backend::BtrfsImage, 6144);
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let config = HostConfig::on_storage(storage.data_dir(), storage.close(), RuntimeKind::Native);
    let pool = storage.config.directory.join("pool");
    let mut report = Report::default();
    let idle_alone = {
        let host = tokio.block_on(Host::start(config.clone())).unwrap();
        life_of_a_session(&tokio, &host, &mut floor, &pool, &mut report);
        back_and_forth(&tokio, &host, &pool, &mut report);
        burst(&tokio, &host, &mut report);
        let idle = cpu_time::while_idle();
        many_paused(&tokio, &host, idle, &mut report);
        tokio.block_on(host.shutdown()).unwrap();
        idle
    };
    report.figure(
        "CPU of a host without sessions, idle".into(),
        idle_alone,
        "ms/s",
        None,
    );
    report.print();
}

fn machine() -> SessionSpec {
    SessionSpec::new(BaseName::new("host").unwrap())
}

fn snap(name: &str) -> SnapshotName {
    SnapshotName::new(name).unwrap()
}

async fn run(host: &Host, id: &SessionId, argv: &[&str]) {
    let mut command = host
        .exec(id, ExecSpec::new(argv.iter().copied()))
        .await
        .unwrap();
    while let Some(event) = command.next_event().await {
        if let ExecEvent::Exited(status) = event {
            assert_eq!(status.code, Some(0));
        }
    }
}

/// A session from nothing to nothing, over its volume and its box made with bare system calls.
fn life_of_a_session(
    tokio: &tokio::runtime::Runtime,
    host: &Host,
    floor: &mut Floor,
    pool: &std::path::Path,
    report: &mut Report,
) {
    let (mut creates, mut commands, mut destroys) = (Vec::new(), Vec::new(), Vec::new());
    let (raw, ours) = alternate(
        ROUNDS,
        |round| raw_storage::volume(pool, round) + floor.new_box(),
        |_| {
            tokio.block_on(async {
                let started = Instant::now();
                let id = host.create_session(machine()).await.unwrap().id;
                creates.push(milliseconds(started));
                let began = Instant::now();
                run(host, &id, &["/usr/bin/echo", "hello"]).await;
                commands.push(milliseconds(began));
                let began = Instant::now();
                host.destroy_session(&id).await.unwrap();
                destroys.push(milliseconds(began));
                milliseconds(started)
            })
        },
    );
    report.ratio(
        "create → first command → destroy ÷ its floors".into(),
        middle(&ours),
        middle(&raw),
        Some(1.5),
    );
    for (what, times) in [
        ("create", creates),
        ("first command", commands),
        ("destroy", destroys),
    ] {
        report.figure(format!("  of that, {what}"), middle(&times), "ms", None);
    }
}

/// Rollback and fork of a session with a box, over the ioctl of a snapshot.
fn back_and_forth(
    tokio: &tokio::runtime::Runtime,
    host: &Host,
    pool: &std::path::Path,
    report: &mut Report,
) {
    let id = tokio.block_on(async {
        let id = host.create_session(machine()).await.unwrap().id;
        run(
            host,
            &id,
            &["/bin/sh", "-c", "for i in 1 2 3 4 5; do echo $i > $i; done"],
        )
        .await;
        host.create_snapshot(&id, Some(snap("s")), Quiesce::WhereNeeded)
            .await
            .unwrap();
        id
    });
    raw_storage::create_subvolume(pool, "raw");
    for number in 0..5 {
        std::fs::write(pool.join(format!("raw/{number}")), "content").unwrap();
    }
    let ioctl = |round| raw_storage::snapshot(pool, "raw", &format!("raw-{round}"));
    let (raw, turns) = alternate(ROUNDS, ioctl, |_| {
        tokio.block_on(async {
            let started = Instant::now();
            host.turn_complete(&id).await.unwrap();
            milliseconds(started)
        })
    });
    report.ratio(
        "turn_complete ÷ snapshot ioctl".into(),
        middle(&turns),
        middle(&raw),
        None,
    );
    let (raw, rollbacks) = alternate(ROUNDS, ioctl, |_| {
        tokio.block_on(async {
            // With a box and something that changed.
            run(host, &id, &["/bin/sh", "-c", "echo changed > 1"]).await;
            let started = Instant::now();
            host.rollback_session(&id, &snap("s"), LaterSnapshots::Drop)
                .await
                .unwrap();
            milliseconds(started)
        })
    });
    report.ratio(
        "rollback of a live session ÷ snapshot ioctl".into(),
        middle(&rollbacks),
        middle(&raw),
        None,
    );
    let (raw, forks) = alternate(ROUNDS, ioctl, |_| {
        tokio.block_on(async {
            run(host, &id, &["/usr/bin/true"]).await;
            let started = Instant::now();
            let fork = host
                .fork_session(&id, ForkRequest::default())
                .await
                .unwrap()
                .remove(0);
            let took = milliseconds(started);
            host.destroy_session(&fork.id).await.unwrap();
            took
        })
    });
    report.ratio(
        "fork of a live session ÷ snapshot ioctl".into(),
        middle(&forks),
        middle(&raw),
        None,
    );
    let (raw, freezes) = alternate(ROUNDS, ioctl, |_| {
        tokio.block_on(async {
            let started = Instant::now();
            host.pause_session(&id).await.unwrap();
            host.resume_session(&id).await.unwrap();
            milliseconds(started)
        })
    });
    report.ratio(
        "pause and resume ÷ snapshot ioctl".into(),
        middle(&freezes),
        middle(&raw),
        None,
    );
    tokio.block_on(host.destroy_session(&id)).unwrap();
    raw_storage::destroy(pool, "raw");
}

/// Sessions made by several callers at once.
#[expect(clippy::cast_precision_loss, reason = "a few hundred")]
fn burst(tokio: &tokio::runtime::Runtime, host: &Arc<Host>, report: &mut Report) {
    let made = tokio.block_on(async {
        let started = Instant::now();
        let ids = make_many(host, BURST, false).await;
        let rate = ids.len() as f64 / started.elapsed().as_secs_f64();
        destroy_all(host, ids).await;
        rate
    });
    report.figure("sessions created per second".into(), made, "/s", None);
    let ready = tokio.block_on(async {
        let started = Instant::now();
        let ids = make_many(host, BURST, true).await;
        let rate = ids.len() as f64 / started.elapsed().as_secs_f64();
        destroy_all(host, ids).await;
        rate
    });
    report.figure(
        "sessions created and used per second".into(),
        ready,
        "/s",
        None,
    );
}

/// Makes sessions, `AT_ONCE` at a time, and runs a command in each when asked to.
async fn make_many(host: &Arc<Host>, count: usize, used: bool) -> Vec<SessionId> {
    let makers = (0..AT_ONCE).map(|_| {
        let host = Arc::clone(host);
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..count / AT_ONCE {
                let id = host.create_session(machine()).await.unwrap().id;
                if used {
                    run(&host, &id, &["/usr/bin/true"]).await;
                }
                ids.push(id);
            }
            ids
        })
    });
    let mut ids = Vec::new();
    for maker in makers.collect::<Vec<_>>() {
        ids.extend(maker.await.unwrap());
    }
    ids
}

async fn destroy_all(host: &Host, ids: Vec<SessionId>) {
    for id in ids {
        host.destroy_session(&id).await.unwrap();
    }
}

/// CPU time of a host with many paused sessions, each with a box and a busy program, beyond that of
/// a host without sessions.
fn many_paused(
    tokio: &tokio::runtime::Runtime,
    host: &Arc<Host>,
    idle_alone: f64,
    report: &mut Report,
) {
    let (ids, commands) = tokio.block_on(async {
        let ids = make_many(host, PAUSED, false).await;
        let mut commands = Vec::new();
        for id in &ids {
            commands.push(
                host.exec(id, ExecSpec::new(["/bin/sh", "-c", "while :; do :; done"]))
                    .await
                    .unwrap(),
            );
            host.pause_session(id).await.unwrap();
        }
        (ids, commands)
    });
    // Deferred work is done before the measurement starts.
    std::thread::sleep(Duration::from_secs(2));
    let extra = (cpu_time::while_idle() - idle_alone).max(0.0);
    report.figure(
        format!("CPU of {PAUSED} paused sessions, each with a busy program"),
        extra,
        "ms/s",
        Some(1.0),
    );
    drop(commands);
    tokio.block_on(destroy_all(host, ids));
}
