//! Listing sandboxes.

use serde_json::{Value, json};

use super::{assert_refused, moment};
use crate::{client::Sandbox, world::World};

fn ids(listed: &Value) -> Vec<String> {
    listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["sandboxID"].as_str().unwrap().to_owned())
        .collect()
}

async fn three(world: &World) -> Vec<Sandbox> {
    let mut made = Vec::new();
    for number in 0..3 {
        let metadata = json!({ "number": number.to_string(), "all": "yes" });
        made.push(
            world
                .sandbox_with(json!({ "templateID": "base", "metadata": metadata }))
                .await,
        );
    }
    made
}

#[test]
fn listed_sandbox_has_all_fields_sdks_require() {
    World::run(async |world| {
        world.sandbox().await;
        let listed = world.get("/v2/sandboxes").await.json();
        let one = &listed[0];
        for field in [
            "templateID",
            "sandboxID",
            "clientID",
            "startedAt",
            "endAt",
            "state",
            "envdVersion",
        ] {
            assert!(one[field].is_string(), "{field}: {one}");
        }
        for field in ["cpuCount", "memoryMB", "diskSizeMB"] {
            assert!(one[field].is_u64(), "{field}: {one}");
        }
        assert!(moment(&one["endAt"]) > moment(&one["startedAt"]));
        assert!(one["envdAccessToken"].is_null());
    });
}

#[test]
fn listing_is_newest_first_by_default() {
    World::run(async |world| {
        let made: Vec<String> = three(world)
            .await
            .into_iter()
            .map(|sandbox| sandbox.id)
            .collect();
        assert_eq!(
            ids(&world.get("/v2/sandboxes?order=asc").await.json()),
            made
        );
        let newest: Vec<String> = made.into_iter().rev().collect();
        assert_eq!(ids(&world.get("/v2/sandboxes").await.json()), newest);
        assert_eq!(
            ids(&world.get("/v2/sandboxes?order=desc").await.json()),
            newest
        );
    });
}

#[test]
fn pages_have_no_gaps_and_the_last_has_no_token() {
    World::run(async |world| {
        let made: Vec<String> = three(world)
            .await
            .into_iter()
            .map(|sandbox| sandbox.id)
            .collect();
        for order in ["asc", "desc"] {
            let mut path = format!("/v2/sandboxes?limit=1&order={order}");
            let mut told = Vec::new();
            loop {
                let page = world.get(&path).await;
                assert_eq!(page.json().as_array().unwrap().len(), 1);
                told.extend(ids(&page.json()));
                let Some(token) = page.headers.get("x-next-token") else {
                    break;
                };
                path = format!(
                    "/v2/sandboxes?limit=1&order={order}&nextToken={}",
                    token.to_str().unwrap()
                );
            }
            if order == "desc" {
                told.reverse();
            }
            assert_eq!(told, made);
        }
    });
}

#[test]
fn metadata_filter_accepts_every_encoding() {
    World::run(async |world| {
        let odd = world
            .sandbox_with(
                json!({ "templateID": "base", "metadata": { "team/slug!": "a & b%20=c" } }),
            )
            .await;
        let made = three(world).await;
        let find = async |metadata: &str| {
            ids(&world
                .get(&format!("/v2/sandboxes?metadata={metadata}"))
                .await
                .json())
        };
        assert_eq!(find("number%3D1").await, [made[1].id.clone()]);
        assert_eq!(find("number%3D1%26all%3Dyes").await, [made[1].id.clone()]);
        assert!(find("number%3D1%26all%3Dno").await.is_empty());
        assert_eq!(find("all%3Dyes").await.len(), 3);
        let once = "team%252Fslug!%3Da%2520%2526%2520b%252520%253Dc";
        let twice = "team%25252Fslug!%3Da%252520%252526%252520b%25252520%25253Dc";
        for metadata in [once, twice] {
            assert_eq!(find(metadata).await, std::slice::from_ref(&odd.id));
        }
    });
}

#[test]
fn listing_filters_by_state() {
    World::run(async |world| {
        let made = three(world).await;
        world.pause(&made[1]).await;
        let find =
            async |state: &str| ids(&world.get(&format!("/v2/sandboxes?{state}")).await.json());
        assert_eq!(find("state=paused").await, [made[1].id.clone()]);
        assert_eq!(find("state=running").await.len(), 2);
        assert_eq!(find("state=running,paused").await.len(), 3);
        assert_eq!(find("state=running&state=paused").await.len(), 3);
        assert_eq!(find("").await.len(), 3);
        let answer = world.get("/v2/sandboxes?state=running&limit=1").await;
        assert_eq!(answer.headers["x-total-running"], "2");
        assert!(
            world
                .get("/v2/sandboxes?state=paused")
                .await
                .headers
                .get("x-total-running")
                .is_none()
        );
    });
}

#[test]
fn first_version_lists_running_sandboxes() {
    World::run(async |world| {
        let made = three(world).await;
        world.pause(&made[0]).await;
        assert_eq!(
            ids(&world.get("/sandboxes").await.json()),
            [made[1].id.clone(), made[2].id.clone()]
        );
        assert_eq!(
            ids(&world.get("/sandboxes?metadata=number%3D2").await.json()),
            [made[2].id.clone()]
        );
    });
}

#[test]
fn listing_filters_by_template_and_start_time() {
    World::run(async |world| {
        let made = three(world).await;
        let since = world.info(&made[1]).await["startedAt"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(
            ids(&world
                .get(&format!("/v2/sandboxes?startedAfter={since}"))
                .await
                .json())
            .len(),
            2
        );
        assert_eq!(
            ids(&world.get("/v2/sandboxes?template=base").await.json()).len(),
            3
        );
        assert!(ids(&world.get("/v2/sandboxes?template=other").await.json()).is_empty());
    });
}

#[test]
fn sessions_of_the_native_api_are_listed() {
    World::run(async |world| {
        let spec = sandbar_core::SessionSpec::new(sandbar_core::BaseName::new("small").unwrap());
        let session = world.host.create_session(spec).await.unwrap();
        let listed = world.get("/v2/sandboxes").await.json();
        assert_eq!(ids(&listed), [session.id.to_string()]);
        let answer = world
            .post(
                &format!("/v2/sandboxes/{}/connect", session.id),
                json!({ "timeout": 60 }),
            )
            .await;
        assert_eq!(answer.status, 200);
        assert_eq!(
            Sandbox::of(world.address, &answer.json())
                .http("GET", "/health", "")
                .await
                .status,
            204
        );
        // A session without expiry; connecting does not set one.
        assert!(
            world
                .host
                .get_session(&session.id)
                .await
                .unwrap()
                .expires
                .is_none()
        );
    });
}

#[test]
fn invalid_query_is_refused_by_name() {
    World::run(async |world| {
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=x", "limit"),
            ("order=up", "order"),
            ("state=gone", "state"),
            ("nextToken=garbage", "nextToken"),
            ("startedAfter=yesterday", "startedAfter"),
            ("metadata=nonsense", "metadata"),
        ] {
            assert_refused(
                &world.get(&format!("/v2/sandboxes?{query}")).await,
                400,
                &[field],
            );
        }
    });
}
