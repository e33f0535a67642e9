//! Lifetime of processes: until the end of their command or sandbox, and no longer.

use std::{fs, time::Duration};

use sandbar_core::{ErrorCode, Resources, RuntimeKind};
use sandbar_runtime::{CommandEnd, ExecSpec};

use crate::{
    test_box::{Ended, TestBox, processes_in},
    world::{World, open_runtime, shell},
};

/// Starts daemons of every kind, and keeps running.
const DAEMONS: &str = "setsid sh -c 'sh -c \"exec sleep 4242.1\" & ' & setsid -f sleep 4242.2; nohup sleep 4242.3 >/dev/null 2>&1 & \
     (trap '' HUP TERM INT; sleep 4242.4 & ) & perl -e 'fork and exit; setpgrp; fork and exit; exec qw(sleep 4242.5)'; \
     sleep 4242.6";
const NUMBERS: [&str; 6] = ["4242.1", "4242.2", "4242.3", "4242.4", "4242.5", "4242.6"];

/// Has no effect on a running process.
const SIGCONT: i32 = 18;

async fn wait_for_daemons(test_box: &TestBox) {
    for number in NUMBERS {
        // The shell's own command line holds the numbers, so match the program as well.
        test_box.wait_until_runs(&format!("sleep\0{number}")).await;
    }
}

async fn assert_no_daemons(test_box: &TestBox) {
    for number in NUMBERS {
        test_box.wait_until_gone(&format!("sleep\0{number}")).await;
    }
}

pub(crate) fn timeout_kills_command_with_daemons_and_keeps_output(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = shell(&format!("echo begun; {DAEMONS}"));
        // Longer than the daemons take to start on a busy machine.
        spec.resources.wall_time = Some(Duration::from_secs(3));
        let command = world.start(spec).await.unwrap();
        let ended = Ended::of(command).await;
        assert!(ended.status.timed_out);
        assert_eq!((ended.status.code, ended.status.signal), (None, Some(9)));
        assert_eq!(ended.stdout, "begun\n");
        assert_no_daemons(world).await;
        assert_eq!(
            world.finish(ExecSpec::new(["true"])).await.status.code,
            Some(0)
        );
    });
}

pub(crate) fn command_within_its_timeout_is_not_timed_out(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut spec = ExecSpec::new(["true"]);
        spec.resources.wall_time = Some(Duration::from_mins(1));
        let status = world.finish(spec).await.status;
        assert!(
            !status.timed_out && status.code == Some(0) && status.duration < Duration::from_mins(1)
        );
    });
}

pub(crate) fn timeout_spares_background_jobs_of_other_commands(kind: RuntimeKind) {
    World::run(kind, async |world| {
        world.finish(shell("sleep 4343.1 &")).await;
        let mut spec = ExecSpec::new(["sleep", "4343.2"]);
        spec.resources.wall_time = Some(Duration::from_millis(50));
        assert!(world.finish(spec).await.status.timed_out);
        assert_eq!(world.count("sleep\x004343.1").await, 1);
        world.stop().await;
        assert_eq!(world.count("4343.1").await, 0);
    });
}

pub(crate) fn dropped_command_is_killed_with_descendants(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world.start(shell(DAEMONS)).await.unwrap();
        wait_for_daemons(world).await;
        drop(command);
        assert_no_daemons(world).await;
    });
}

pub(crate) fn killed_command_ends_with_descendants_and_reports_exit(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world
            .start(shell(&format!("echo begun; {DAEMONS}")))
            .await
            .unwrap();
        wait_for_daemons(world).await;
        command.kill();
        let ended = Ended::of(command).await;
        assert_eq!(
            (ended.stdout.as_str(), ended.status.signal),
            ("begun\n", Some(9))
        );
        assert!(!ended.status.timed_out);
        assert_no_daemons(world).await;
    });
}

pub(crate) fn kill_of_ended_command_harms_no_other(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let mut ended = world.start(ExecSpec::new(["true"])).await.unwrap();
        while ended.next_event().await.is_some() {}
        let running = world
            .start(ExecSpec::new(["sleep", "4343.3"]))
            .await
            .unwrap();
        ended.kill();
        drop(ended);
        assert_eq!(
            world.finish(ExecSpec::new(["true"])).await.status.code,
            Some(0)
        );
        assert_eq!(world.count("sleep\x004343.3").await, 1);
        drop(running);
    });
}

pub(crate) fn background_jobs_live_until_the_sandbox_stops(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "setsid sh -c 'while :; do echo tick; date >> /workspace/log; sleep 0.01; done' & echo started";
        let ended = world.finish(shell(script)).await;
        assert!(ended.stdout.contains("started\n"));
        assert_eq!(ended.status.code, Some(0));
        let log = world.path_inside("workspace/log");
        let size = || fs::metadata(&log).map_or(0, |log| log.len());
        // Its output is not read, and still it continues, also beside other commands.
        assert_eq!(
            world.finish(ExecSpec::new(["true"])).await.status.code,
            Some(0)
        );
        let before = size();
        World::wait_for("the job to go on", async || size() > before + 100).await;
        world.stop().await;
        let after = size();
        assert!(world.on_host().is_empty());
        assert_eq!(size(), after);
    });
}

pub(crate) fn background_job_can_write_more_than_a_pipe_holds(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let script = "setsid sh -c 'head -c 1000000 /dev/zero; echo through > /workspace/flag' & echo started";
        assert_eq!(world.finish(shell(script)).await.status.code, Some(0));
        let flag = world.path_inside("workspace/flag");
        World::wait_for("the job to be through", async || flag.exists()).await;
    });
}

pub(crate) fn command_ending_with_output_includes_background_output(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let with_output = |script: &str| ExecSpec {
            end: CommandEnd::Output,
            ..shell(script)
        };
        let ended = world
            .finish(with_output("(sleep 0.3; echo late) & echo first; exit 3"))
            .await;
        assert_eq!(
            (ended.stdout.as_str(), ended.status.code),
            ("first\nlate\n", Some(3))
        );
        // A command that is not waited for any more is released, whatever it left running.
        let mut command = world
            .start(with_output("sleep 4343.4 & echo first; exit 3"))
            .await
            .unwrap();
        assert!(command.next_event().await.is_some());
        World::wait_for("the program to exit", async || {
            command.signal(SIGCONT).is_err()
        })
        .await;
        command.kill();
        assert_eq!(Ended::of(command).await.status.code, Some(3));
        let mut late = with_output("sleep 4343.5 & exit 3");
        late.resources.wall_time = Some(Duration::from_millis(500));
        assert!(world.finish(late).await.status.timed_out);
    });
}

pub(crate) fn files_and_tmp_persist_between_commands(kind: RuntimeKind) {
    World::run(kind, async |world| {
        world
            .finish(shell("echo one > /tmp/kept; echo two > /workspace/kept"))
            .await;
        assert_eq!(
            world
                .finish(ExecSpec::new(["cat", "/tmp/kept", "/workspace/kept"]))
                .await
                .stdout,
            "one\ntwo\n"
        );
    });
}

pub(crate) fn stopped_sandbox_has_no_processes_and_rejects_commands(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world.start(shell(DAEMONS)).await.unwrap();
        wait_for_daemons(world).await;
        world.stop().await;
        assert_eq!(Ended::of(command).await.status.signal, Some(9));
        assert!(world.on_host().is_empty());
        assert_eq!(
            world
                .start(ExecSpec::new(["true"]))
                .await
                .unwrap_err()
                .code(),
            ErrorCode::InvalidState
        );
        world.stop().await;
    });
}

pub(crate) fn dropped_sandbox_is_stopped(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let other = world.open_box("two", &Resources::default());
        other
            .finish(shell("setsid -f sleep 4444.1 >/dev/null 2>&1"))
            .await;
        other.wait_until_runs("sleep\x004444.1").await;
        let (group, its_own) = (other.group().to_owned(), other.on_host());
        tokio::task::spawn_blocking(move || drop(other))
            .await
            .unwrap();
        // Its cgroup is free, and a prepared box may already use it.
        assert!(
            processes_in(&group)
                .iter()
                .all(|pid| !its_own.contains(pid))
        );
        assert_eq!(
            world.finish(ExecSpec::new(["true"])).await.status.code,
            Some(0)
        );
    });
}

pub(crate) fn session_can_reopen_a_sandbox_after_stop(kind: RuntimeKind) {
    World::run(kind, async |world| {
        for _ in 0..3 {
            let again = world.open_box("two", &Resources::default());
            assert_eq!(
                again.finish(ExecSpec::new(["echo", "here"])).await.stdout,
                "here\n"
            );
            again.stop().await;
        }
    });
}

pub(crate) fn new_host_kills_leftovers_of_its_predecessor(kind: RuntimeKind) {
    World::run(kind, async |world| {
        world.finish(shell("setsid -f sleep 4646.1")).await;
        world.wait_until_runs("sleep\x004646.1").await;
        let left = world.on_host();
        assert!(!left.is_empty());
        // As after a crash: the first runtime was not stopped.
        let name = world.name().to_owned();
        let again = tokio::task::spawn_blocking(move || open_runtime(kind, &name))
            .await
            .unwrap();
        // What the new one has started ahead may be in groups of the same names.
        let still_there: Vec<_> = world
            .on_host()
            .into_iter()
            .filter(|pid| left.contains(pid))
            .collect();
        assert!(still_there.is_empty(), "{still_there:?} of {left:?}");
        drop(again);
    });
}
