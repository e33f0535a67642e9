//! Snapshots and rollback inside a sandbox.

use serde_json::json;

use super::assert_refused;
use crate::world::World;

#[test]
fn rollback_keeps_id_and_tokens() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let path = format!("/sandbar/sandboxes/{}", sandbox.id);
        world.shell(&sandbox, "echo good > /state").await;
        let taken = world
            .post(&format!("{path}/snapshots"), json!({ "name": "before" }))
            .await;
        assert_eq!(
            (taken.status.as_u16(), taken.json()["name"].as_str()),
            (201, Some("before"))
        );
        world
            .shell(&sandbox, "echo bad > /state; echo new > /new")
            .await;
        assert_eq!(
            world
                .post(&format!("{path}/rollback"), json!({ "snapshot": "before" }))
                .await
                .status,
            204
        );
        assert_eq!(
            world
                .shell(&sandbox, "cat /state; test -e /new || echo gone")
                .await,
            "good\ngone\n"
        );
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 204);
    });
}

#[test]
fn turns_are_numbered_and_diffed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let path = format!("/sandbar/sandboxes/{}", sandbox.id);
        let turn = world.control("POST", &format!("{path}/turns"), None).await;
        assert_eq!(turn.status, 201, "{}", turn.text());
        let first = turn.json()["name"].as_str().unwrap().to_owned();
        world.shell(&sandbox, "echo x > /added").await;
        let second = world
            .control("POST", &format!("{path}/turns"), None)
            .await
            .json()["name"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_ne!(first, second);
        let changes = world.get(&format!("{path}/diff?from={first}")).await.json();
        let added = changes["changes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|change| change["path"] == "/added")
            .unwrap();
        assert_eq!(
            (added["kind"].as_str(), added["type"].as_str()),
            (Some("added"), Some("file"))
        );
        let none = world
            .get(&format!("{path}/diff?from={second}&to={second}"))
            .await
            .json();
        assert!(none["changes"].as_array().unwrap().is_empty());
        assert_eq!(
            world
                .get(&format!("{path}/snapshots"))
                .await
                .json()
                .as_array()
                .unwrap()
                .len(),
            2
        );
    });
}

#[test]
fn rollback_to_an_unknown_snapshot_changes_nothing() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let path = format!("/sandbar/sandboxes/{}", sandbox.id);
        world.shell(&sandbox, "echo kept > /state").await;
        assert_refused(
            &world
                .post(
                    &format!("{path}/rollback"),
                    json!({ "snapshot": "nonesuch" }),
                )
                .await,
            404,
            &["nonesuch"],
        );
        assert_refused(
            &world.post(&format!("{path}/rollback"), json!({})).await,
            400,
            &["snapshot"],
        );
        assert_refused(
            &world
                .post(&format!("{path}/rollback"), json!({ "snapshot": "../x" }))
                .await,
            400,
            &["snapshot"],
        );
        assert_refused(&world.get(&format!("{path}/diff")).await, 400, &["from"]);
        assert_eq!(world.shell(&sandbox, "cat /state").await, "kept\n");
    });
}
