//! Snapshots from which sandboxes are created.

use serde_json::{Value, json};

use super::assert_refused;
use crate::{client::Sandbox, world::World};

async fn snapshot(world: &World, sandbox: &Sandbox, body: Value) -> Value {
    let answer = world
        .post(&format!("/sandboxes/{}/snapshots", sandbox.id), body)
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

fn id_of(snapshot: &Value) -> &str {
    snapshot["snapshotID"].as_str().unwrap()
}

/// Percent-encodes a snapshot id for a path, as SDKs do.
async fn delete(world: &World, id: &str) -> u16 {
    let path = format!("/templates/{}", id.replace(':', "%3A").replace('/', "%2F"));
    world.control("DELETE", &path, None).await.status.as_u16()
}

fn ids(listed: &Value) -> Vec<String> {
    listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| id_of(one).to_owned())
        .collect()
}

#[test]
fn sandbox_from_a_snapshot_has_its_own_copy() {
    World::run(async |world| {
        let source = world
            .sandbox_with(json!({ "templateID": "base", "envVars": { "KEPT": "yes" } }))
            .await;
        world.shell(&source, "echo shared > /state").await;
        let taken = snapshot(world, &source, json!({})).await;
        assert!(taken["names"].as_array().unwrap().is_empty());
        world.shell(&source, "echo later > /state").await;
        let one = world
            .sandbox_with(json!({ "templateID": id_of(&taken) }))
            .await;
        let other = world
            .sandbox_with(json!({ "templateID": id_of(&taken) }))
            .await;
        assert_eq!(
            world.shell(&one, "cat /state; echo $KEPT").await,
            "shared\nyes\n"
        );
        world.shell(&one, "echo mine > /state").await;
        assert_eq!(world.shell(&other, "cat /state").await, "shared\n");
    });
}

#[test]
fn snapshot_outlives_its_sandbox() {
    World::run(async |world| {
        let source = world.sandbox().await;
        world.shell(&source, "echo kept > /kept").await;
        let taken = snapshot(world, &source, json!({})).await;
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", source.id), None)
                .await
                .status,
            204
        );
        let made = world
            .sandbox_with(json!({ "templateID": id_of(&taken) }))
            .await;
        assert_eq!(world.shell(&made, "cat /kept").await, "kept\n");
    });
}

#[test]
fn named_snapshot_is_replaced_by_a_later_one() {
    World::run(async |world| {
        let source = world.sandbox().await;
        world.shell(&source, "echo 1 > /state").await;
        let first = snapshot(world, &source, json!({ "name": "golden" })).await;
        assert_eq!(
            first,
            json!({ "snapshotID": "golden:default", "names": ["golden:default"] })
        );
        world.shell(&source, "echo 2 > /state").await;
        snapshot(world, &source, json!({ "name": "golden" })).await;
        snapshot(world, &source, json!({ "name": "golden:old" })).await;
        let made = world.sandbox_with(json!({ "templateID": "golden" })).await;
        assert_eq!(world.shell(&made, "cat /state").await, "2\n");
        assert_eq!(world.info(&made).await["alias"], "golden");
        assert_eq!(
            ids(&world.get("/snapshots").await.json()),
            ["golden:old", "golden:default"]
        );
        assert_eq!(
            ids(&world
                .get("/snapshots?name=team%2Fgolden%3Aold")
                .await
                .json()),
            ["golden:old"]
        );
        assert!(ids(&world.get("/snapshots?name=golden-not").await.json()).is_empty());
    });
}

#[test]
fn snapshots_are_listed_newest_first_in_pages() {
    World::run(async |world| {
        let (one, other) = (world.sandbox().await, world.sandbox().await);
        let mut taken = Vec::new();
        for sandbox in [&one, &other, &one] {
            taken.insert(
                0,
                id_of(&snapshot(world, sandbox, json!({})).await).to_owned(),
            );
        }
        assert_eq!(ids(&world.get("/snapshots").await.json()), taken);
        let of_other = world
            .get(&format!("/snapshots?sandboxID={}", other.id))
            .await
            .json();
        assert_eq!(ids(&of_other), [taken[1].clone()]);
        let mut listed = Vec::new();
        let mut path = "/snapshots?limit=2".to_owned();
        loop {
            let page = world.get(&path).await;
            listed.extend(ids(&page.json()));
            let Some(next) = page.headers.get("x-next-token") else {
                break;
            };
            path = format!("/snapshots?limit=2&nextToken={}", next.to_str().unwrap());
        }
        assert_eq!(listed, taken);
        assert_refused(
            &world.get("/snapshots?nextToken=x").await,
            400,
            &["nextToken"],
        );
    });
}

#[test]
fn deleting_a_snapshot_keeps_its_sandboxes() {
    World::run(async |world| {
        let source = world.sandbox().await;
        world.shell(&source, "echo kept > /kept").await;
        let taken = snapshot(world, &source, json!({})).await;
        let named = snapshot(world, &source, json!({ "name": "n1" })).await;
        let made = world
            .sandbox_with(json!({ "templateID": id_of(&taken) }))
            .await;
        for one in [&taken, &named] {
            assert_eq!(delete(world, id_of(one)).await, 204);
            assert_eq!(delete(world, id_of(one)).await, 404);
        }
        assert_eq!(world.shell(&made, "cat /kept").await, "kept\n");
        assert_refused(
            &world
                .post("/v2/sandboxes", json!({ "templateID": id_of(&taken) }))
                .await,
            404,
            &["not found"],
        );
        assert!(ids(&world.get("/snapshots").await.json()).is_empty());
    });
}

#[test]
fn invalid_snapshot_request_is_refused() {
    World::run(async |world| {
        let path = format!("/sandboxes/{}/snapshots", world.sandbox().await.id);
        assert_refused(
            &world.post(&path, json!({ "name": "no spaces" })).await,
            400,
            &["name"],
        );
        assert_refused(
            &world.post(&path, json!({ "name": 7 })).await,
            400,
            &["name"],
        );
        assert_refused(
            &world.post("/sandboxes/nonesuch/snapshots", json!({})).await,
            404,
            &["nonesuch"],
        );
    });
}
