//! Names, tags, listings.

use serde_json::{Value, json};

use super::support::{Wanted, built, content, requested, step};
use crate::world::World;

fn saying(text: &str) -> Value {
    json!({ "fromTemplate": "base", "steps": [step("RUN", &[&format!("echo {text} > ~/said")])] })
}

async fn said(world: &World, template: &str) -> String {
    let sandbox = world.sandbox_with(json!({ "templateID": template })).await;
    content(world, &sandbox.id, "/home/user/said").await
}

async fn status_of_create(world: &World, template: &str) -> u16 {
    world
        .control(
            "POST",
            "/v2/sandboxes",
            Some(&json!({ "templateID": template })),
        )
        .await
        .status
        .as_u16()
}

#[test]
fn builds_are_found_by_assigned_tags() {
    World::run(async |world| {
        built(
            world,
            &Wanted {
                tags: &["stable", "v1"],
                ..Wanted::new("tool")
            },
            saying("one"),
        )
        .await;
        built(world, &Wanted::new("tool:v2"), saying("two")).await;
        assert_eq!(said(world, "tool:v1").await, "one\n");
        assert_eq!(said(world, "team/tool:stable").await, "one\n");
        assert_eq!(said(world, "tool:v2").await, "two\n");
        assert_eq!(status_of_create(world, "tool:v3").await, 404);

        let body = json!({ "target": "tool:v2", "tags": ["stable", "latest-good"] });
        let answer = world.control("POST", "/templates/tags", Some(&body)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.json()["tags"], json!(["stable", "latest-good"]));
        assert_eq!(answer.json()["buildID"].as_str().unwrap().len(), 36);
        assert_eq!(said(world, "tool:stable").await, "two\n");

        // A tag may be preceded by the name.
        let body = json!({ "target": "tool:v2", "tags": ["tool:production"] });
        let answer = world.control("POST", "/templates/tags", Some(&body)).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["tags"]),
            (201, &json!(["production"]))
        );
        assert_eq!(said(world, "tool:production").await, "two\n");

        let body = json!({ "name": "tool", "tags": ["v1"] });
        // Removing an unknown tag succeeds.
        for _ in 0..2 {
            assert_eq!(
                world
                    .control("DELETE", "/templates/tags", Some(&body))
                    .await
                    .status,
                204
            );
        }
        for (bad, status) in [
            (json!({ "name": "tool", "tags": ["default"] }), 400),
            (json!({ "name": "tool", "tags": [] }), 400),
            (json!({ "name": "tool:v2", "tags": ["v2"] }), 400),
            (json!({ "name": "never", "tags": ["v2"] }), 404),
        ] {
            assert_eq!(
                world
                    .control("DELETE", "/templates/tags", Some(&bad))
                    .await
                    .status,
                status,
                "{bad}"
            );
        }
        assert_eq!(status_of_create(world, "tool:v1").await, 404);
        let missing = json!({ "target": "tool:v9", "tags": ["x"] });
        assert_eq!(
            world
                .control("POST", "/templates/tags", Some(&missing))
                .await
                .status,
            404
        );
    });
}

#[test]
fn templates_are_listed_updated_and_deleted() {
    World::run(async |world| {
        for name in ["first", "second", "third"] {
            built(world, &Wanted::new(name), saying(name)).await;
        }
        let all = world.control("GET", "/templates", None).await.json();
        let names: Vec<&str> = all
            .as_array()
            .unwrap()
            .iter()
            .map(|template| template["names"][0].as_str().unwrap())
            .collect();
        assert_eq!(names, ["first", "second", "third"]);
        for field in [
            "templateID",
            "buildID",
            "envdVersion",
            "createdAt",
            "updatedAt",
        ] {
            assert!(
                all[0][field].as_str().is_some_and(|text| !text.is_empty()),
                "{field}"
            );
        }
        assert_eq!(
            (&all[0]["buildStatus"], &all[0]["memoryMB"]),
            (&"ready".into(), &512.into())
        );

        let page = world.control("GET", "/v2/templates?limit=2", None).await;
        let next = page.headers["x-next-token"].to_str().unwrap().to_owned();
        assert_eq!(page.json().as_array().unwrap().len(), 2);
        let rest = world
            .control(
                "GET",
                &format!("/v2/templates?limit=2&nextToken={next}"),
                None,
            )
            .await;
        assert_eq!(
            (
                rest.json().as_array().unwrap().len(),
                rest.headers.get("x-next-token")
            ),
            (1, None)
        );

        let id = all[0]["templateID"].as_str().unwrap();
        let alias = world.control("GET", "/templates/aliases/first", None).await;
        assert_eq!(alias.json(), json!({ "templateID": id, "public": false }));
        assert_eq!(
            world
                .control("GET", "/templates/aliases/base", None)
                .await
                .status,
            200
        );
        assert_eq!(
            world
                .control("GET", "/templates/aliases/never", None)
                .await
                .status,
            404
        );
        // A name is taken as soon as a build was requested.
        requested(world, &Wanted::new("asked:v1")).await;
        assert_eq!(
            world
                .control("GET", "/templates/aliases/asked", None)
                .await
                .status,
            200
        );
        assert_eq!(
            world
                .control("DELETE", "/templates/asked", None)
                .await
                .status,
            204
        );
        let builds = world
            .control("GET", &format!("/templates/{id}"), None)
            .await
            .json();
        assert_eq!(builds["builds"][0]["status"], "ready", "{builds}");
        let changed = world
            .control(
                "PATCH",
                &format!("/v2/templates/{id}"),
                Some(&json!({ "public": true })),
            )
            .await;
        assert_eq!(changed.json(), json!({ "names": ["first"] }));

        assert_eq!(
            world
                .control("DELETE", "/templates/first", None)
                .await
                .status,
            204
        );
        assert_eq!(
            world
                .control("DELETE", "/templates/first", None)
                .await
                .status,
            404
        );
        assert_eq!(
            world
                .control("DELETE", "/templates/base", None)
                .await
                .status,
            403
        );
        assert_eq!(status_of_create(world, "first").await, 404);
        assert_eq!(said(world, "second").await, "second\n");
    });
}

#[test]
fn second_version_answers_with_the_whole_template() {
    World::run(async |world| {
        let body = json!({ "alias": "older", "cpuCount": 1, "memoryMB": 1024 });
        let answer = world.control("POST", "/v2/templates", Some(&body)).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        let template = answer.json();
        assert_eq!(
            (&template["aliases"], &template["cpuCount"]),
            (&json!(["older"]), &1.into())
        );
        let (again, build) = requested(world, &Wanted::new("older")).await;
        assert_eq!(template["templateID"], again.as_str());
        assert_ne!(template["buildID"], build.as_str());
    });
}

#[test]
fn templates_require_an_admin_key() {
    World::run(async |world| {
        for (method, path) in [
            ("POST", "/v3/templates"),
            ("GET", "/templates"),
            ("DELETE", "/templates/base"),
            ("POST", "/templates/tags"),
        ] {
            assert_eq!(
                world.control_with(method, path, &[], None).await.status,
                401,
                "{method} {path}"
            );
        }
    });
}
