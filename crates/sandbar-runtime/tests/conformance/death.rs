//! Death of a box or its host.

use std::{
    io::Read,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use sandbar_core::{ErrorCode, Resources, RuntimeKind};
use sandbar_runtime::ExecSpec;

use crate::{
    test_box::{Ended, TestBox, processes_in},
    world::{World, fresh_name, open_runtime, shell},
};

pub(crate) fn box_with_killed_init_is_not_alive(kind: RuntimeKind) {
    World::run(kind, async |world| {
        assert!(world.is_alive());
        let command = world
            .start(ExecSpec::new(["sleep", "4747.1"]))
            .await
            .unwrap();
        // A box may still be set up when it can be used already.
        world.finish(ExecSpec::new(["true"])).await;
        let init = world.init_on_host();
        assert!(!init.is_empty());
        for pid in init {
            kill_process(
                Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(),
                Signal::KILL,
            )
            .unwrap();
        }
        let ended = Ended::of(command).await;
        assert_eq!(
            (ended.status.signal, ended.status.timed_out),
            (Some(9), false)
        );
        World::wait_for("the box to be gone", async || !world.is_alive()).await;
        let error = world.start(ExecSpec::new(["true"])).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable);
        assert!(error.hint().is_some());
        world.stop().await;
        assert!(world.on_host().is_empty());
    });
}

pub(crate) fn box_with_stopped_init_can_be_stopped(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world
            .start(ExecSpec::new(["sleep", "4747.2"]))
            .await
            .unwrap();
        // A box may still be set up when it can be used already.
        world.finish(ExecSpec::new(["true"])).await;
        for pid in world.init_on_host() {
            let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            kill_process(pid, Signal::STOP).unwrap();
        }
        // It reads no request, and is not waited for.
        while command.signal(libc::SIGURG).is_ok() {}
        let test_box = TestBox::clone(world);
        let starting = tokio::spawn(async move { test_box.start(ExecSpec::new(["true"])).await });
        world.stop().await;
        let code = starting.await.unwrap().unwrap_err().code();
        assert!(
            matches!(code, ErrorCode::Unavailable | ErrorCode::InvalidState),
            "{code:?}"
        );
        assert_eq!(Ended::of(command).await.status.signal, Some(9));
        assert!(world.on_host().is_empty());
    });
}

/// Cgroups of ended boxes are reused, also by boxes with other uid ranges.
pub(crate) fn new_boxes_replace_several_dead_ones(kind: RuntimeKind) {
    World::run(kind, async |world| {
        for round in 0..2 {
            let boxes: Vec<_> = (0..3)
                .map(|number| {
                    world.open_box(&format!("box-{round}-{number}"), &Resources::default())
                })
                .collect();
            for test_box in &boxes {
                assert_eq!(
                    test_box
                        .finish(ExecSpec::new(["echo", "here"]))
                        .await
                        .stdout,
                    "here\n"
                );
            }
            for test_box in boxes {
                test_box.stop().await;
                tokio::task::spawn_blocking(move || drop(test_box))
                    .await
                    .unwrap();
            }
        }
    });
}

pub(crate) fn dead_box_is_replaced_by_a_new_one(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let first = world.open_box("two", &Resources::default());
        first.finish(ExecSpec::new(["true"])).await;
        for pid in first.init_on_host() {
            kill_process(
                Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(),
                Signal::KILL,
            )
            .unwrap();
        }
        World::wait_for("the box to be gone", async || !first.is_alive()).await;
        first.stop().await;
        let second = world.open_box("two", &Resources::default());
        assert_eq!(
            second.finish(ExecSpec::new(["echo", "here"])).await.stdout,
            "here\n"
        );
        second.stop().await;
    });
}

/// Set for the process that plays the host: the name it goes by.
const HOST: &str = "SANDBAR_TEST_HOST";

/// This test again, as a process of its own that can be killed.
struct HostProcess {
    process: Child,
    kind: RuntimeKind,
    name: String,
}

impl HostProcess {
    fn start(kind: RuntimeKind, test: &str) -> Self {
        let name = fresh_name();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{kind}::death::{test}"), "--nocapture"])
            .env(HOST, &name)
            // It stays until this closes, so that it does not outlive us.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            process,
            kind,
            name,
        }
    }

    fn processes(&self) -> Vec<u32> {
        processes_in(&format!("/{}/", self.name))
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // The next host of the name removes the groups; what was mounted went with the process.
        drop(open_runtime(self.kind, &self.name));
        let _ = std::fs::remove_dir(std::env::temp_dir().join(&self.name));
    }
}

pub(crate) fn killed_host_leaves_no_process_running(kind: RuntimeKind) {
    if let Ok(name) = std::env::var(HOST) {
        return World::run_named(kind, &name, &Resources::default(), async |world| {
            world
                .finish(shell(
                    "setsid -f sleep 4747.2; nohup sleep 4747.3 >/dev/null 2>&1 &",
                ))
                .await;
            let other = world.open_box("two", &Resources::default());
            let frozen = world.open_box("three", &Resources::default());
            let _running = [
                frozen
                    .start(ExecSpec::new(["sleep", "4747.7"]))
                    .await
                    .unwrap(),
                world
                    .start(shell("trap '' TERM HUP; sleep 4747.4; sleep 4747.5"))
                    .await
                    .unwrap(),
                other
                    .start(ExecSpec::new(["sleep", "4747.6"]))
                    .await
                    .unwrap(),
            ];
            // Elsewhere the next host ends what was frozen.
            if kind == RuntimeKind::Native {
                frozen.freeze().await;
            }
            let _last = world
                .start(ExecSpec::new(["sleep", "4747.8"]))
                .await
                .unwrap();
            tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]))
                .await
                .unwrap()
                .unwrap();
        });
    }
    let mut host = HostProcess::start(kind, "killed_host_leaves_no_process_running");
    let seen = |host: &HostProcess| match kind {
        // Another kernel's processes: all boxes stand, and have had time to begin when this one is
        // last.
        RuntimeKind::Gvisor => !processes_in(&format!("/{}/box-3/", host.name)).is_empty(),
        RuntimeKind::Native | RuntimeKind::None => {
            ["4747.2", "4747.3", "4747.4", "4747.6", "4747.7", "4747.8"]
                .iter()
                .all(|number| {
                    let sleeper = format!("sleep\0{number}");
                    host.processes().iter().any(|pid| {
                        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                            .is_ok_and(|line| line.contains(&sleeper))
                    })
                })
        }
    };
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        World::wait_for("the host's commands to run", async || seen(&host)).await;
        host.process.kill().unwrap();
        World::wait_for("everything to end", async || host.processes().is_empty()).await;
        drop(host);
    });
}
