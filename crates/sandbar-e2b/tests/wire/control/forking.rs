//! Forking sandboxes.

use serde_json::{Value, json};

use super::{assert_refused, moment};
use crate::{client::Sandbox, world::World};

async fn fork(world: &World, sandbox: &Sandbox, body: Value) -> Vec<Sandbox> {
    let answer = world
        .post(&format!("/v2/sandboxes/{}/fork", sandbox.id), body)
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let results = answer.json();
    results
        .as_array()
        .unwrap()
        .iter()
        .map(|one| Sandbox::of(world.address, &one["sandbox"]))
        .collect()
}

#[test]
fn fork_has_its_own_copy_of_the_files() {
    World::run(async |world| {
        let source = world
            .sandbox_with(json!({ "templateID": "base", "metadata": { "a": "b" } }))
            .await;
        world.shell(&source, "echo before > /state").await;
        let copies = fork(world, &source, json!({})).await;
        assert_eq!(copies.len(), 1);
        let copy = &copies[0];
        assert_ne!(copy.id, source.id);
        assert_eq!(world.shell(copy, "cat /state").await, "before\n");
        world.shell(copy, "echo after > /state").await;
        assert_eq!(world.shell(&source, "cat /state").await, "before\n");
        assert_eq!(copy.http("GET", "/health", "").await.status, 204);
        assert_eq!(world.info(copy).await["metadata"], json!({ "a": "b" }));
        // The tokens of one are not valid for the other.
        let stranger = Sandbox {
            access_token: source.access_token.clone(),
            ..copy.clone()
        };
        assert_eq!(stranger.http("GET", "/health", "").await.status, 401);
    });
}

#[test]
fn several_forks_have_the_requested_lifetime() {
    World::run(async |world| {
        let source = world.sandbox().await;
        let copies = fork(world, &source, json!({ "count": 5, "timeout": 900 })).await;
        assert_eq!(copies.len(), 5);
        for copy in &copies {
            let left = moment(&world.info(copy).await["endAt"])
                .duration_since(jiff::Timestamp::now())
                .as_secs();
            assert!((840..=900).contains(&left), "{left}");
        }
        assert_eq!(world.state(&source).await, "running");
    });
}

#[test]
fn first_version_of_fork_works() {
    World::run(async |world| {
        let source = world.sandbox().await;
        let answer = world
            .post(
                &format!("/sandboxes/{}/fork", source.id),
                json!({ "count": 2, "timeout": 60 }),
            )
            .await;
        assert_eq!(
            (
                answer.status.as_u16(),
                answer.json().as_array().unwrap().len()
            ),
            (201, 2)
        );
    });
}

#[test]
fn forks_beyond_the_session_limit_are_reported() {
    World::run_with(
        |config| config.max_sessions = 3,
        None,
        async |world| {
            let source = world.sandbox().await;
            let answer = world
                .post(
                    &format!("/v2/sandboxes/{}/fork", source.id),
                    json!({ "count": 4 }),
                )
                .await;
            let results = answer.json();
            let (made, refused): (Vec<&Value>, Vec<&Value>) = results
                .as_array()
                .unwrap()
                .iter()
                .partition(|result| result["sandbox"].is_object());
            assert_eq!(
                (answer.status.as_u16(), made.len(), refused.len()),
                (201, 2, 2)
            );
            assert_eq!(refused[0]["error"]["code"], 429);
            assert!(refused[0]["error"]["message"].is_string());
        },
    );
}

#[test]
fn invalid_fork_is_refused() {
    World::run(async |world| {
        let source = world.sandbox().await;
        let path = format!("/v2/sandboxes/{}/fork", source.id);
        for count in [json!(0), json!(21), json!(-1), json!("two")] {
            assert_refused(
                &world.post(&path, json!({ "count": count })).await,
                400,
                &["count"],
            );
        }
        assert_refused(
            &world.post("/v2/sandboxes/nonesuch/fork", json!({})).await,
            404,
            &["nonesuch"],
        );
        world.pause(&source).await;
        assert_refused(&world.post(&path, json!({})).await, 409, &["paused"]);
    });
}
