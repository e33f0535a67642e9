//! Killing sandboxes.

use std::time::Duration;

use sandbar_core::{ExecSpec, SessionId};

use super::assert_refused;
use crate::world::World;

#[test]
fn second_kill_is_not_found() {
    World::run(async |world| {
        let path = format!("/sandboxes/{}", world.sandbox().await.id);
        assert_eq!(world.control("DELETE", &path, None).await.status, 204);
        assert_refused(&world.control("DELETE", &path, None).await, 404, &[]);
        assert_refused(&world.get(&path).await, 404, &[]);
    });
}

#[test]
fn paused_sandbox_can_be_killed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        world.pause(&sandbox).await;
        let path = format!("/sandboxes/{}", sandbox.id);
        assert_eq!(world.control("DELETE", &path, None).await.status, 204);
        assert_refused(&world.connect(&sandbox).await, 404, &[]);
    });
}

#[test]
fn kill_ends_running_commands_promptly() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let id = SessionId::new(sandbox.id.as_str()).unwrap();
        let mut command = world
            .host
            .exec(&id, ExecSpec::new(["/bin/sleep", "1000"]))
            .await
            .unwrap();
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                .await
                .status,
            204
        );
        let ended = async { while command.next_event().await.is_some() {} };
        tokio::time::timeout(Duration::from_mins(1), ended)
            .await
            .expect("the command ends with its sandbox");
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 502);
    });
}

#[test]
fn concurrent_requests_end_when_a_sandbox_is_killed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let path = format!("/sandboxes/{}", sandbox.id);
        let timeout = format!("{path}/timeout");
        let visits = (0..10).map(|_| world.post(&timeout, serde_json::json!({ "timeout": 60 })));
        let (killed, visits) = futures::future::join(
            world.control("DELETE", &path, None),
            futures::future::join_all(visits),
        )
        .await;
        assert_eq!(killed.status, 204);
        for visit in visits {
            assert!(
                [204, 404, 409].contains(&visit.status.as_u16()),
                "{}",
                visit.text()
            );
        }
        assert_refused(&world.get(&path).await, 404, &[]);
    });
}

#[test]
fn concurrent_kills_all_complete() {
    World::run(async |world| {
        let path = format!("/sandboxes/{}", world.sandbox().await.id);
        let answers =
            futures::future::join_all((0..5).map(|_| world.control("DELETE", &path, None))).await;
        assert!(
            answers
                .iter()
                .all(|answer| answer.status == 204 || answer.status == 404)
        );
        assert!(answers.iter().any(|answer| answer.status == 204));
    });
}
