//! Freezing and thawing a box.

use std::{fs, time::Duration};

use sandbar_core::{ErrorCode, Resources, RuntimeKind};
use sandbar_runtime::ExecSpec;

use crate::{
    test_box::{Ended, TestBox},
    world::{World, shell},
};

/// Counts as fast as it can, into a file the host sees.
const COUNTER: &str = "setsid sh -c 'while :; do echo >> /workspace/count; done' >/dev/null 2>&1 &";

fn count(test_box: &TestBox) -> u64 {
    fs::metadata(test_box.path_inside("workspace/count")).map_or(0, |count| count.len())
}

async fn wait_until_it_counts(test_box: &TestBox) {
    let before = count(test_box);
    World::wait_for("the count to go on", async || {
        count(test_box) > before + 100
    })
    .await;
}

pub(crate) fn frozen_box_makes_no_progress_until_thaw(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let neighbour = world.open_box("two", &Resources::default());
        world.finish(shell(COUNTER)).await;
        for _ in 0..3 {
            wait_until_it_counts(world).await;
            world.freeze().await;
            let (frozen, used) = (count(world), world.stats().await.cpu_time);
            // Others have all the time they need meanwhile.
            for _ in 0..20 {
                assert_eq!(
                    neighbour.finish(shell("seq 1 2000 | wc -l")).await.stdout,
                    "2000\n"
                );
            }
            assert_eq!(count(world), frozen);
            // The kernel may still have been counting what it took to stand still.
            let more = world
                .stats()
                .await
                .cpu_time
                .unwrap()
                .saturating_sub(used.unwrap());
            assert!(more < Duration::from_millis(5), "{more:?}");
            world.thaw().await;
        }
        wait_until_it_counts(world).await;
        neighbour.stop().await;
    });
}

pub(crate) fn freeze_and_thaw_are_idempotent(kind: RuntimeKind) {
    World::run(kind, async |world| {
        world.thaw().await;
        world.finish(shell(COUNTER)).await;
        world.freeze().await;
        world.freeze().await;
        world.thaw().await;
        wait_until_it_counts(world).await;
        world.thaw().await;
        assert_eq!(
            world.finish(ExecSpec::new(["true"])).await.status.code,
            Some(0)
        );
    });
}

pub(crate) fn command_started_in_frozen_box_runs_after_thaw(kind: RuntimeKind) {
    World::run(kind, async |world| {
        world.freeze().await;
        let test_box = TestBox::clone(world);
        let finishing =
            tokio::spawn(async move { test_box.finish(shell("echo > ran; echo done")).await });
        let neighbour = world.open_box("two", &Resources::default());
        assert_eq!(
            neighbour.finish(ExecSpec::new(["true"])).await.status.code,
            Some(0)
        );
        neighbour.stop().await;
        assert!(!world.path_inside("workspace/ran").exists());
        world.thaw().await;
        assert_eq!(finishing.await.unwrap().stdout, "done\n");
    });
}

pub(crate) fn frozen_box_can_be_stopped(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world
            .start(shell("trap '' TERM; while :; do :; done"))
            .await
            .unwrap();
        world.freeze().await;
        world.stop().await;
        assert_eq!(Ended::of(command).await.status.signal, Some(9));
        assert!(world.on_host().is_empty());
    });
}

pub(crate) fn stop_of_frozen_box_releases_pending_starts(kind: RuntimeKind) {
    World::run(kind, async |world| {
        world.freeze().await;
        let test_box = TestBox::clone(world);
        let starting = tokio::spawn(async move { test_box.start(ExecSpec::new(["true"])).await });
        // Meanwhile the start begins, and waits for the frozen init.
        let neighbour = world.open_box("two", &Resources::default());
        for _ in 0..20 {
            assert_eq!(
                neighbour.finish(ExecSpec::new(["true"])).await.status.code,
                Some(0)
            );
        }
        neighbour.stop().await;
        world.stop().await;
        let code = starting.await.unwrap().unwrap_err().code();
        assert!(
            matches!(code, ErrorCode::Unavailable | ErrorCode::InvalidState),
            "{code:?}"
        );
        assert!(world.on_host().is_empty());
    });
}

pub(crate) fn command_in_frozen_box_can_be_killed(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world
            .start(ExecSpec::new(["sleep", "4949.1"]))
            .await
            .unwrap();
        world.freeze().await;
        command.kill();
        world.thaw().await;
        assert_eq!(Ended::of(command).await.status.signal, Some(9));
    });
}

/// The signals of a supervised process are sent by a task, which must not hold its thread.
pub(crate) fn signals_to_frozen_box_never_block(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let command = world
            .start(shell(
                "trap 'echo caught; exit 3' USR1; echo up; while :; do sleep 0.01; done",
            ))
            .await
            .unwrap();
        let mut command = command;
        assert!(matches!(
            command.next_event().await,
            Some(sandbar_runtime::ExecEvent::Stdout(_))
        ));
        world.freeze().await;
        let refused = loop {
            if let Err(error) = command.signal(libc::SIGUSR1) {
                break error;
            }
        };
        assert_eq!(refused.code(), ErrorCode::Timeout);
        // Those that were accepted arrive.
        world.thaw().await;
        let ended = Ended::of(command).await;
        assert_eq!(ended.status.code, Some(3));
        // The trap runs again for a signal that arrives before its `exit`.
        assert!(ended.stdout.starts_with("caught\n"), "{}", ended.stdout);
    });
}

pub(crate) fn box_after_a_frozen_one_is_not_frozen(kind: RuntimeKind) {
    World::run(kind, async |world| {
        let first = world.open_box("two", &Resources::default());
        first.freeze().await;
        first.stop().await;
        tokio::task::spawn_blocking(move || drop(first))
            .await
            .unwrap();
        let second = world.open_box("three", &Resources::default());
        assert_eq!(
            second.finish(ExecSpec::new(["echo", "here"])).await.stdout,
            "here\n"
        );
        second.stop().await;
    });
}
