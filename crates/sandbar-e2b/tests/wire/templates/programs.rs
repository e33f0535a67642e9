//! Programs that sandboxes of a template run from their beginning.

use std::time::Duration;

use serde_json::json;

use super::support::{Wanted, built, content, lines, run, step};
use crate::world::World;

#[test]
fn the_program_of_a_template_is_ready_in_every_sandbox() {
    World::run(async |world| {
        let plan = json!({
            "fromTemplate": "base",
            "steps": [step("ENV", &["GREETING", "hello"]), step("WORKDIR", &["/srv/app"])],
            // A lock of an earlier run would keep it from starting.
            "startCmd": "[ ! -e lock ] && echo $GREETING > lock && sleep 0.3 && id -un > ready && exec sleep 1000",
            "readyCmd": "test -s ready",
        });
        let status = built(world, &Wanted::new("served"), plan).await;
        assert_eq!(status["status"], "ready", "{}", lines(&status));
        for _ in 0..2 {
            let sandbox = world.sandbox_with(json!({ "templateID": "served" })).await;
            assert_eq!(content(world, &sandbox.id, "/srv/app/ready").await, "user\n");
            assert_eq!(content(world, &sandbox.id, "/srv/app/lock").await, "hello\n");
            assert!(run(world, &sandbox.id, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await.contains("sleep 1000"));
        }
    });
}

#[test]
fn the_program_runs_again_after_a_pause_that_kept_only_files() {
    World::run(async |world| {
        let plan = json!({
            "fromTemplate": "base",
            "startCmd": "echo start >> ~/starts; exec sleep 1000",
            "readyCmd": "test -s ~/starts",
        });
        assert_eq!(built(world, &Wanted::new("again"), plan).await["status"], "ready");
        let sandbox = world.sandbox_with(json!({ "templateID": "again" })).await;
        let call = async |what: &str, body: serde_json::Value| {
            let answer = world.control("POST", &format!("/sandboxes/{}/{what}", sandbox.id), Some(&body)).await;
            assert!(answer.status.is_success(), "{}", answer.text());
        };
        call("pause", json!({ "memory": false })).await;
        call("connect", json!({ "timeout": 300 })).await;
        // What says that it is ready was there before: it may be on its way to its first word.
        while content(world, &sandbox.id, "/home/user/starts").await != "start\nstart\n" {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn the_time_of_a_sandbox_begins_when_its_program_is_ready() {
    World::run(async |world| {
        let plan = json!({ "fromTemplate": "base", "startCmd": "sleep 1000", "readyCmd": "[ -z $SLOW ] || sleep 5" });
        assert_eq!(built(world, &Wanted::new("slow"), plan).await["status"], "ready");
        let wanted = json!({ "templateID": "slow", "timeout": 4, "envVars": { "SLOW": "yes" } });
        let sandbox = world.sandbox_with(wanted).await;
        assert_eq!(run(world, &sandbox.id, "echo $SLOW").await, "yes\n");
        let detail = world.control("GET", &format!("/sandboxes/{}", sandbox.id), None).await.json();
        let time = |name: &str| detail[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert!(time("endAt").duration_since(time("startedAt")).as_secs() >= 8, "{detail}");
        // It does not keep what it had more while it was waited for.
        assert!(time("endAt").duration_since(time("startedAt")).as_secs() < 40, "{detail}");
    });
}

#[test]
fn a_program_that_is_not_ready_in_time_keeps_nobody_waiting() {
    World::run_impatient(Duration::from_millis(200), async |world| {
        let ready = "case $SLOW in '') ;; question) sleep 20; touch ~/asked-to-the-end ;; *) false ;; esac";
        let plan = json!({ "fromTemplate": "base", "startCmd": "sleep 1000", "readyCmd": ready });
        assert_eq!(built(world, &Wanted::new("late"), plan).await["status"], "ready");
        // One question that takes long, and many that are answered with no.
        for slow in ["question", "answer"] {
            let wanted = json!({ "templateID": "late", "timeout": 30, "envVars": { "SLOW": slow } });
            let sandbox = world.sandbox_with(wanted).await;
            assert_eq!(run(world, &sandbox.id, "ls /home/user; echo here").await, "here\n", "{slow}");
            assert!(run(world, &sandbox.id, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await.contains("sleep 1000"));
        }
    });
}

#[test]
fn a_program_that_fails_fails_the_build() {
    World::run(async |world| {
        for (start, ready, text) in [
            ("exit 3", "false", "exit status 3"),
            ("no-such-program", "sleep 0.2; false", "start command failed"),
            // It fails while somebody waits for nothing but the time.
            ("touch ~/ended; exit 4", "until [ -e ~/ended ]; do :; done; sleep 1", "exit status 4"),
        ] {
            let plan = json!({ "fromTemplate": "base", "startCmd": start, "readyCmd": ready });
            let status = built(world, &Wanted::new("dead"), plan).await;
            assert_eq!(
                (&status["status"], &status["reason"]["step"]),
                (&"error".into(), &"finalize".into()),
                "{status}"
            );
            assert!(status["reason"]["message"].as_str().unwrap().contains(text), "{status}");
        }
        let bases = world.host.list_bases().await.unwrap();
        assert!(bases.iter().all(|base| !base.name.as_str().starts_with("e2b-build-")), "{bases:?}");
    });
}
