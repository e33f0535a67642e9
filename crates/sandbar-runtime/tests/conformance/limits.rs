//! Limits of a box: enforced, reported, and without effect on other boxes.

use std::time::Duration;

use sandbar_core::{ByteCount, ErrorCode, Resources, RuntimeKind};
use sandbar_runtime::{ExecSpec, RunningCommand};

use crate::{
    test_box::{Ended, TestBox},
    world::{World, shell},
};

/// Holds on to as much memory as is named.
fn hog(size: &str) -> ExecSpec {
    shell(&format!(
        "exec dd if=/dev/zero of=/dev/null bs={size} count=1 2>/dev/null"
    ))
}

/// Has as many children as it can, up to forty, and tells how many.
pub(crate) const PARENT: &str = r"
    my @children;
    while (@children < 40) {
        my $child = fork; last unless defined $child;
        if (!$child) { sleep 1000; exit }
        push @children, $child;
    }
    print scalar(@children); kill 9, @children;
";

fn limited(spec: ExecSpec, resources: Resources) -> ExecSpec {
    ExecSpec { resources, ..spec }
}

fn pids(pids: u64) -> Resources {
    Resources {
        pids: Some(pids),
        ..Resources::default()
    }
}

fn memory(mib: u64) -> Resources {
    Resources {
        memory: Some(ByteCount::mib(mib)),
        ..Resources::default()
    }
}

async fn wait_until_empty(test_box: &TestBox) {
    World::wait_for("the box to be empty", async || {
        test_box.stats().await.processes == Some(0)
    })
    .await;
}

/// Runs a good number of commands, one after the other.
async fn goes_on(neighbour: &TestBox) {
    for _ in 0..30 {
        assert_eq!(
            neighbour.finish(shell("echo fine | cat")).await.stdout,
            "fine\n"
        );
    }
}

pub(crate) fn fork_bomb_is_contained_in_its_box(kind: RuntimeKind) {
    let limits = Resources {
        cpus: Some(0.5),
        ..pids(40)
    };
    World::run_limited(kind, &limits, async |world| {
        let neighbour = world.open_box("two", &Resources::default());
        let bomb = world
            .start(ExecSpec::new(["perl", "-e", "fork while 1"]))
            .await
            .unwrap();
        World::wait_for("the bomb to fill its box", async || {
            world.stats().await.processes == Some(40)
        })
        .await;
        if kind != RuntimeKind::Gvisor {
            // Which does not count them.
            World::wait_for("forks to be refused", async || {
                world.stats().await.refused_forks > Some(0)
            })
            .await;
        }
        // One that has just ended may leave room for a moment, which the bomb takes.
        let error = loop {
            match world.start(ExecSpec::new(["true"])).await {
                Ok(lucky) => drop(Ended::of(lucky).await),
                Err(error) => break error,
            }
        };
        assert_eq!(
            (error.code(), error.field()),
            (ErrorCode::Unavailable, Some("resources.pids"))
        );
        assert!(error.hint().is_some());
        goes_on(&neighbour).await;
        assert_eq!(neighbour.stats().await.refused_forks.unwrap_or(0), 0);
        assert_eq!(
            world.stats().await.processes,
            Some(40),
            "it went on all the time"
        );
        bomb.kill();
        assert_eq!(Ended::of(bomb).await.status.signal, Some(9));
        // The box itself has not suffered.
        World::wait_for("room for a command", async || {
            world.start(ExecSpec::new(["true"])).await.is_ok()
        })
        .await;
        neighbour.stop().await;
    });
}

pub(crate) fn memory_hog_is_oom_killed_and_spares_others(kind: RuntimeKind) {
    World::run_limited(kind, &memory(64), async |world| {
        let neighbour = world.open_box("two", &Resources::default());
        let modest = world
            .start(ExecSpec::new(["sleep", "5050.1"]))
            .await
            .unwrap();
        let status = world.finish(hog("300M")).await.status;
        assert!(status.oom_killed);
        assert_eq!(
            (status.code, status.signal, status.timed_out),
            (None, Some(9), false)
        );
        goes_on(&neighbour).await;
        let others = neighbour.stats().await;
        assert_eq!(others.oom_kills, Some(0));
        neighbour.stop().await;
        if kind == RuntimeKind::Gvisor {
            // All of the box is one process to the machine's kernel.
            return;
        }
        // A child counts as its command's.
        let ended = world
            .finish(shell(
                "dd if=/dev/zero of=/dev/null bs=300M count=1 2>/dev/null; echo survived",
            ))
            .await;
        assert_eq!(
            (ended.stdout.as_str(), ended.status.code),
            ("survived\n", Some(0))
        );
        assert!(ended.status.oom_killed);
        // OOM kills are not attributed to other commands.
        assert!(
            !world
                .finish(ExecSpec::new(["true"]))
                .await
                .status
                .oom_killed
        );
        assert_eq!(world.count("sleep\x005050.1").await, 1);
        modest.kill();
        let status = Ended::of(modest).await.status;
        assert_eq!((status.oom_killed, status.signal), (false, Some(9)));
        let figures = world.stats().await;
        assert_eq!(figures.oom_kills, Some(2));
        assert!(
            figures
                .memory_peak
                .is_some_and(|peak| peak <= ByteCount::mib(64)),
            "{figures:?}"
        );
    });
}

/// All of a gVisor box is one thing to the machine's kernel: nothing in it can be limited by
/// itself.
async fn is_refused(test_box: &TestBox, wish: Resources, field: &str) {
    let error = test_box
        .start(limited(ExecSpec::new(["true"]), wish))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.field()),
        (ErrorCode::InvalidArgument, Some(field))
    );
    assert!(error.hint().is_some());
}

pub(crate) fn command_limit_applies_to_that_command_only(kind: RuntimeKind) {
    World::run_limited(
        kind,
        &Resources {
            memory: Some(ByteCount::mib(512)),
            ..pids(20)
        },
        async |world| {
            let children = async |limits: Resources| {
                // Those of the last one count until init has seen their end.
                wait_until_empty(world).await;
                world
                    .finish(limited(ExecSpec::new(["perl", "-e", PARENT]), limits))
                    .await
                    .stdout
            };
            // The parent is a process too.
            assert_eq!(children(Resources::default()).await, "19");
            if kind == RuntimeKind::Gvisor {
                is_refused(world, pids(5), "resources.pids").await;
                is_refused(world, memory(64), "resources.memory").await;
                // The session's own limit is accepted.
                assert_eq!(children(pids(20)).await, "19");
                return;
            }
            assert_eq!(children(pids(5)).await, "4");
            // One field says nothing about another.
            assert_eq!(children(memory(64)).await, "19");
            assert_eq!(
                world
                    .finish(limited(hog("100M"), pids(5)))
                    .await
                    .status
                    .code,
                Some(0)
            );
            let status = world.finish(limited(hog("300M"), memory(64))).await.status;
            assert!(status.oom_killed && status.signal == Some(9));
            let status = world.finish(hog("300M")).await.status;
            assert_eq!((status.oom_killed, status.code), (false, Some(0)));
        },
    );
}

pub(crate) fn forks_refused_by_command_limit_are_counted(kind: RuntimeKind) {
    World::run(kind, async |world| {
        if kind == RuntimeKind::Gvisor {
            return is_refused(world, pids(5), "resources.pids").await;
        }
        let parent = limited(ExecSpec::new(["perl", "-e", PARENT]), pids(5));
        assert_eq!(world.finish(parent).await.stdout, "4");
        assert!(world.stats().await.refused_forks > Some(0));
    });
}

/// Two processes that use CPU time for a few seconds.
fn burner(cpus: Option<f64>) -> ExecSpec {
    let resources = Resources {
        cpus,
        wall_time: Some(Duration::from_millis(1500)),
        ..Resources::default()
    };
    limited(
        shell("while :; do :; done & while :; do :; done"),
        resources,
    )
}

/// The CPU time a box used while a command ran, as a share of that time.
async fn share(test_box: &TestBox, command: RunningCommand) -> f64 {
    let before = test_box.stats().await.cpu_time.unwrap();
    let status = Ended::of(command).await.status;
    assert!(status.timed_out && status.signal == Some(9));
    let after = test_box.stats().await.cpu_time.unwrap();
    (after.as_secs_f64() - before.as_secs_f64()) / status.duration.as_secs_f64()
}

pub(crate) fn cpu_burner_is_held_to_its_limit(kind: RuntimeKind) {
    let limits = Resources {
        cpus: Some(0.2),
        ..Resources::default()
    };
    World::run_limited(kind, &limits, async |world| {
        let neighbour = world.open_box("two", &Resources::default());
        let burning = world.start(burner(None)).await.unwrap();
        let other = neighbour.clone();
        let neighbour_goes_on = tokio::spawn(async move { goes_on(&other).await });
        let used = share(world, burning).await;
        // A burner that is not held takes one or two cores.
        assert!(used < 0.5, "{used}");
        neighbour_goes_on.await.unwrap();
        neighbour.stop().await;
    });
}

pub(crate) fn command_can_have_less_cpu_than_its_session(kind: RuntimeKind) {
    World::run(kind, async |world| {
        if kind == RuntimeKind::Gvisor {
            let wish = Resources {
                cpus: Some(0.2),
                ..Resources::default()
            };
            return is_refused(world, wish, "resources.cpus").await;
        }
        let burning = world.start(burner(Some(0.2))).await.unwrap();
        let used = share(world, burning).await;
        assert!(used < 0.5, "{used}");
    });
}

pub(crate) fn default_memory_limit_kills_the_hog_and_spares_others(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let bounded = world.open_box_with_default("two", ByteCount::mib(96));
        let sleeper = bounded
            .start(ExecSpec::new(["sleep", "5353.1"]))
            .await
            .unwrap();
        let status = bounded.finish(hog("300M")).await.status;
        assert!(status.oom_killed && status.signal == Some(9), "{status:?}");
        goes_on(world).await;
        if kind == RuntimeKind::Gvisor {
            // All of the box is one process to the machine's kernel.
            return bounded.stop().await;
        }
        // The box goes on, with init under the same limit.
        for round in 0..5 {
            let status = bounded
                .finish(shell("dd if=/dev/zero of=/dev/null bs=300M count=1"))
                .await
                .status;
            assert!(status.oom_killed, "{round}: {status:?}");
        }
        assert!(bounded.is_alive());
        assert_eq!(bounded.count("sleep\x005353.1").await, 1);
        goes_on(&bounded).await;
        // A kill by the host does not count as one by the kernel.
        sleeper.kill();
        let status = Ended::of(sleeper).await.status;
        assert_eq!((status.oom_killed, status.signal), (false, Some(9)));
        let figures = bounded.stats().await;
        assert!(figures.oom_kills >= Some(6), "{figures:?}");
        assert!(
            figures.memory_peak <= Some(ByteCount::mib(96)),
            "{figures:?}"
        );
        bounded.stop().await;
    });
}

/// Sixty processes that each lead a process session of their own, which the kernel's autogroups
/// would count as a user each.
const CROWD: &str = "for n in $(seq 60); do setsid sh -c 'while :; do :; done' & done; wait";

pub(crate) fn crowded_box_leaves_another_its_share_of_cpu(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let crowded = world.open_box("two", &Resources::default());
        let crowd = crowded.start(shell(CROWD)).await.unwrap();
        World::wait_for("the crowd to run", async || {
            crowded.stats().await.processes >= Some(60)
        })
        .await;
        let time_of =
            async |test_box: &TestBox| test_box.stats().await.cpu_time.unwrap().as_secs_f64();
        let burning = world.start(burner(None)).await.unwrap();
        let before = (time_of(world).await, time_of(&crowded).await);
        Ended::of(burning).await;
        let own = time_of(world).await - before.0;
        let others = time_of(&crowded).await - before.1;
        // Without groups, two processes beside sixty get a thirtieth of the time of those.
        assert!(own > 0.2 * others, "{own} s beside {others} s");
        drop(crowd);
        crowded.stop().await;
    });
}

pub(crate) fn boxes_are_killed_before_the_machine(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let of_process = |pid: u32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
            text.unwrap().trim().parse::<i32>().unwrap()
        };
        let own = of_process(std::process::id());
        let running = world
            .start(ExecSpec::new(["sleep", "5354.1"]))
            .await
            .unwrap();
        for init in world.init_on_host() {
            let score = of_process(init);
            assert!(score > own, "{score} and {own}");
        }
        if kind != RuntimeKind::Gvisor {
            let told = world
                .finish(ExecSpec::new(["cat", "/proc/self/oom_score_adj"]))
                .await;
            assert_eq!(told.stdout, format!("{}\n", own.max(500)));
        }
        drop(running);
    });
}

/// Opens files until it cannot, tells how many and why, and holds them until its input ends.
const LEAK: &str = r#"
    my @open; while (open(my $file, "<", "/dev/null")) { push @open, $file }
    $| = 1; print scalar(@open), " $!\n"; <STDIN>;
"#;

pub(crate) fn descriptor_leak_stops_at_its_own_limit(kind: RuntimeKind) {
    use sandbar_runtime::{ExecEvent, StdinMode};
    World::run(kind, async |world| {
        let limits = Resources {
            open_files: Some(64),
            ..Resources::default()
        };
        let leak = ExecSpec {
            stdin: StdinMode::Piped,
            ..ExecSpec::new(["perl", "-e", LEAK])
        };
        let mut leaking = world.start(limited(leak, limits.clone())).await.unwrap();
        // Three descriptors are its streams.
        let told = leaking.next_event().await;
        assert_eq!(
            told,
            Some(ExecEvent::Stdout("61 Too many open files\n".into()))
        );
        goes_on(world).await;
        assert_eq!(
            world
                .finish(limited(shell("ulimit -n; ulimit -Hn"), limits))
                .await
                .stdout,
            "64\n64\n"
        );
        let unlimited: u64 = world
            .finish(shell("ulimit -n"))
            .await
            .stdout
            .trim()
            .parse()
            .unwrap();
        assert!(unlimited > 64);
        let most = world.finish(shell("ulimit -Hn")).await.stdout;
        assert!(most.trim().parse::<u64>().unwrap() <= 65_536, "{most}");
        leaking.stdin().unwrap().close();
        assert_eq!(Ended::of(leaking).await.status.code, Some(0));
    });
}

pub(crate) fn stats_of_a_box_are_its_own(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let before = world.stats().await;
        let refused = (kind != RuntimeKind::Gvisor).then_some(0);
        assert_eq!(
            (before.processes, before.refused_forks, before.oom_kills),
            (Some(0), refused, Some(0))
        );
        let sleepers = world
            .start(shell("sleep 5151.1 & sleep 5151.2"))
            .await
            .unwrap();
        world.wait_until_runs("sleep\x005151.2").await;
        let during = world.stats().await;
        assert_eq!(during.processes, Some(3));
        assert!(
            during.memory > Some(ByteCount(0)) && during.memory_peak >= during.memory,
            "{during:?}"
        );
        assert!(during.cpu_time > before.cpu_time);
        sleepers.kill();
        Ended::of(sleepers).await;
        wait_until_empty(world).await;
    });
}

pub(crate) fn limit_holds_in_groups_of_an_unlimited_predecessor(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let first = world.open_box("two", &Resources::default());
        assert_eq!(
            first.finish(ExecSpec::new(["true"])).await.status.code,
            Some(0)
        );
        first.stop().await;
        tokio::task::spawn_blocking(move || drop(first))
            .await
            .unwrap();
        let second = world.open_box("three", &memory(64));
        assert!(second.finish(hog("300M")).await.status.oom_killed);
        second.stop().await;
    });
}

pub(crate) fn box_inherits_nothing_from_its_predecessor(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let tight = Resources {
            cpus: Some(0.5),
            ..Resources {
                memory: Some(ByteCount::mib(64)),
                ..pids(5)
            }
        };
        let first = world.open_box("two", &tight);
        assert_eq!(
            first
                .finish(ExecSpec::new(["perl", "-e", PARENT]))
                .await
                .stdout,
            "4"
        );
        assert!(first.finish(hog("300M")).await.status.oom_killed);
        first.stop().await;
        // What it was made of is free for others now.
        tokio::task::spawn_blocking(move || drop(first))
            .await
            .unwrap();
        let second = world.open_box("three", &Resources::default());
        let figures = second.stats().await;
        assert_eq!((figures.processes, figures.oom_kills), (Some(0), Some(0)));
        // gVisor does not count them.
        assert_eq!(
            figures.refused_forks,
            (kind != RuntimeKind::Gvisor).then_some(0)
        );
        assert!(
            figures.memory_peak < Some(ByteCount::mib(64)),
            "{figures:?}"
        );
        assert_eq!(
            second
                .finish(ExecSpec::new(["perl", "-e", PARENT]))
                .await
                .stdout,
            "40"
        );
        let status = second.finish(hog("300M")).await.status;
        assert_eq!((status.code, status.oom_killed), (Some(0), false));
        second.stop().await;
    });
}
