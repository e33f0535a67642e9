//! Start commands of templates.

use std::time::Duration;

use serde_json::json;

use super::support::{Wanted, built, content, lines, run, step};
use crate::world::World;

#[test]
fn start_command_is_ready_in_every_sandbox() {
    World::run(async |world| {
        let plan = json!({
            "fromTemplate": "base",
            "steps": [step("ENV", &["GREETING", "hello"]), step("WORKDIR", &["/srv/app"])],
            // A lock file of an earlier run would prevent a start.
            "startCmd": "[ ! -e lock ] && echo $GREETING > lock && sleep 0.3 && id -un > ready && exec sleep 1000",
            "readyCmd": "test -s ready",
        });
        let status = built(world, &Wanted::new("served"), plan).await;
        assert_eq!(status["status"], "ready", "{}", lines(&status));
        for _ in 0..2 {
            let sandbox = world.sandbox_with(json!({ "templateID": "served" })).await;
            assert_eq!(
                content(world, &sandbox.id, "/srv/app/ready").await,
                "user\n"
            );
            assert_eq!(
                content(world, &sandbox.id, "/srv/app/lock").await,
                "hello\n"
            );
            assert!(
                run(
                    world,
                    &sandbox.id,
                    "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
                )
                .await
                .contains("sleep 1000")
            );
        }
    });
}

#[test]
fn start_command_runs_again_after_a_pause_of_files() {
    World::run(async |world| {
        let plan = json!({
            "fromTemplate": "base",
            "startCmd": "echo start >> ~/starts; exec sleep 1000",
            "readyCmd": "test -s ~/starts",
        });
        assert_eq!(
            built(world, &Wanted::new("again"), plan).await["status"],
            "ready"
        );
        let sandbox = world.sandbox_with(json!({ "templateID": "again" })).await;
        let call = async |what: &str, body: serde_json::Value| {
            let answer = world
                .control(
                    "POST",
                    &format!("/sandboxes/{}/{what}", sandbox.id),
                    Some(&body),
                )
                .await;
            assert!(answer.status.is_success(), "{}", answer.text());
        };
        call("pause", json!({ "memory": false })).await;
        call("connect", json!({ "timeout": 300 })).await;
        // The ready marker existed before, so the program may not have written yet.
        while content(world, &sandbox.id, "/home/user/starts").await != "start\nstart\n" {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn lifetime_begins_when_the_start_command_is_ready() {
    World::run(async |world| {
        let plan = json!({ "fromTemplate": "base", "startCmd": "sleep 1000", "readyCmd": "[ -z $SLOW ] || sleep 5" });
        assert_eq!(
            built(world, &Wanted::new("slow"), plan).await["status"],
            "ready"
        );
        let wanted = json!({ "templateID": "slow", "timeout": 4, "envVars": { "SLOW": "yes" } });
        let sandbox = world.sandbox_with(wanted).await;
        assert_eq!(run(world, &sandbox.id, "echo $SLOW").await, "yes\n");
        let detail = world
            .control("GET", &format!("/sandboxes/{}", sandbox.id), None)
            .await
            .json();
        let time = |name: &str| {
            detail[name]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .unwrap()
        };
        assert!(
            time("endAt").duration_since(time("startedAt")).as_secs() >= 8,
            "{detail}"
        );
        // The extra lifetime during the wait is taken back.
        assert!(
            time("endAt").duration_since(time("startedAt")).as_secs() < 40,
            "{detail}"
        );
    });
}

#[test]
fn start_command_that_is_not_ready_does_not_block_create() {
    World::run_impatient(Duration::from_millis(200), async |world| {
        let ready =
            "case $SLOW in '') ;; question) sleep 20; touch ~/asked-to-the-end ;; *) false ;; esac";
        let plan = json!({ "fromTemplate": "base", "startCmd": "sleep 1000", "readyCmd": ready });
        assert_eq!(
            built(world, &Wanted::new("late"), plan).await["status"],
            "ready"
        );
        // A ready command that takes long, and one that keeps failing.
        for slow in ["question", "answer"] {
            let wanted =
                json!({ "templateID": "late", "timeout": 30, "envVars": { "SLOW": slow } });
            let sandbox = world.sandbox_with(wanted).await;
            assert_eq!(
                run(world, &sandbox.id, "ls /home/user; echo here").await,
                "here\n",
                "{slow}"
            );
            assert!(
                run(
                    world,
                    &sandbox.id,
                    "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
                )
                .await
                .contains("sleep 1000")
            );
        }
    });
}

#[test]
fn failing_start_command_fails_the_build() {
    World::run(async |world| {
        for (start, ready, text) in [
            ("exit 3", "false", "exit status 3"),
            (
                "no-such-program",
                "sleep 0.2; false",
                "start command failed",
            ),
            // It fails during the settle time, without a ready command.
            (
                "touch ~/ended; exit 4",
                "until [ -e ~/ended ]; do :; done; sleep 1",
                "exit status 4",
            ),
        ] {
            let plan = json!({ "fromTemplate": "base", "startCmd": start, "readyCmd": ready });
            let status = built(world, &Wanted::new("dead"), plan).await;
            assert_eq!(
                (&status["status"], &status["reason"]["step"]),
                (&"error".into(), &"finalize".into()),
                "{status}"
            );
            assert!(
                status["reason"]["message"].as_str().unwrap().contains(text),
                "{status}"
            );
        }
        let bases = world.host.list_bases().await.unwrap();
        assert!(
            bases
                .iter()
                .all(|base| !base.name.as_str().starts_with("e2b-build-")),
            "{bases:?}"
        );
    });
}
