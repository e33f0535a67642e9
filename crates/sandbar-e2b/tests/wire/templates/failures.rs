//! Builds that fail, are cancelled, or were interrupted.

use sandbar_core::{BaseName, SessionSpec};
use serde_json::json;

use super::support::{Wanted, built, finished, lines, requested, sessions, started, step};
use crate::world::World;

#[test]
fn failed_step_is_named_with_its_output_and_cleaned_up() {
    World::run(async |world| {
        let steps = json!([
            step("ENV", &["A", "1"]),
            step("RUN", &["echo one; echo problem >&2; exit 7"]),
            step("RUN", &["true"])
        ]);
        let status = built(
            world,
            &Wanted::new("broken"),
            json!({ "fromTemplate": "base", "steps": steps }),
        )
        .await;
        assert_eq!(status["status"], "error");
        assert_eq!(status["reason"]["step"], "2");
        let message = status["reason"]["message"].as_str().unwrap();
        assert!(
            message.contains("exit status 7") && message.contains("problem"),
            "{message}"
        );
        let of_step = status["reason"]["logEntries"].to_string();
        assert!(of_step.contains("[stderr]: problem"), "{of_step}");
        let said = lines(&status);
        assert!(said.contains("[builder 2/3] [stdout]: one\n"), "{said}");
        assert!(!said.contains("[builder 3/3]"), "{said}");
        assert_eq!(sessions(world).await, Vec::<String>::new());
        let refused = world
            .control(
                "POST",
                "/v2/sandboxes",
                Some(&json!({ "templateID": "broken" })),
            )
            .await;
        assert_eq!(refused.status, 404, "{}", refused.text());
    });
}

#[test]
fn unsupported_step_is_refused_by_its_number() {
    World::run(async |world| {
        for (bad, text) in [
            (step("VOLUME", &["/x"]), "not offered"),
            (step("RUN", &[]), "requires command"),
            (step("ENV", &["A"]), "key and value"),
            (step("COPY", &["a", "/a"]), "files hash"),
            (step("USER", &["no body"]), "not a valid user name"),
            (
                step("RUN", &["true", "unknown"]),
                "failed to run command 'true': command failed: unauthenticated: invalid username: 'unknown'",
            ),
        ] {
            let plan = json!({ "fromTemplate": "base", "steps": [step("RUN", &["true"]), bad] });
            let status = built(world, &Wanted::new("bad"), plan).await;
            assert_eq!(status["reason"]["step"], "2", "{status}");
            assert!(
                status["reason"]["message"].as_str().unwrap().contains(text),
                "{status}"
            );
        }
        let status = built(
            world,
            &Wanted::new("bad"),
            json!({ "fromTemplate": "never-made" }),
        )
        .await;
        assert_eq!(status["reason"]["step"], "base", "{status}");
        let status = built(
            world,
            &Wanted::new("bad"),
            json!({ "fromImage": "Not An Image" }),
        )
        .await;
        assert_eq!(status["reason"]["step"], "base", "{status}");
    });
}

#[test]
fn invalid_template_calls_are_refused() {
    World::run(async |world| {
        let (template, build) = requested(world, &Wanted::new("sense")).await;
        let path = format!("/v2/templates/{template}/builds/{build}");
        for bad in [
            json!({}),
            json!({ "fromImage": "a", "fromTemplate": "b" }),
            json!({ "fromTemplate": "base", "steps": 1 }),
        ] {
            assert_eq!(
                world.control("POST", &path, Some(&bad)).await.status,
                400,
                "{bad}"
            );
        }
        for bad in [
            json!({}),
            json!({ "name": "" }),
            json!({ "name": "a b" }),
            json!({ "name": "a", "cpuCount": 0 }),
            json!({ "name": "a:b:c" }),
        ] {
            assert_eq!(
                world
                    .control("POST", "/v3/templates", Some(&bad))
                    .await
                    .status,
                400,
                "{bad}"
            );
        }
        assert_eq!(
            world
                .control("POST", "/v3/templates", Some(&json!({ "name": "base" })))
                .await
                .status,
            403
        );
        let other = format!("/v2/templates/{template}/builds/{}", "0".repeat(36));
        assert_eq!(
            world
                .control("POST", &other, Some(&json!({ "fromTemplate": "base" })))
                .await
                .status,
            404
        );
        started(world, &template, &build, &json!({ "fromTemplate": "base" })).await;
        assert_eq!(
            world
                .control("POST", &path, Some(&json!({ "fromTemplate": "base" })))
                .await
                .status,
            409
        );
        finished(world, &template, &build).await;
        assert_eq!(
            world
                .control(
                    "POST",
                    "/templates",
                    Some(&json!({ "dockerfile": "FROM x" }))
                )
                .await
                .status,
            501
        );
    });
}

#[test]
fn invalid_field_is_named_with_its_path() {
    World::run(async |world| {
        let (template, build) = requested(world, &Wanted::new("fields")).await;
        let builds = format!("/v2/templates/{template}/builds/{build}");
        let of_base =
            |name: &str, value: serde_json::Value| json!({ "fromTemplate": "base", name: value });
        let with_access =
            |access: serde_json::Value| json!({ "fromImage": "x", "fromImageRegistry": access });
        for (method, path, body, named) in [
            ("POST", "/v3/templates", json!([]), "not a JSON object"),
            ("POST", "/v3/templates", json!({ "name": 5 }), "`name`"),
            (
                "POST",
                "/v3/templates",
                json!({ "name": "a", "tags": "v1" }),
                "`tags`",
            ),
            (
                "POST",
                "/v3/templates",
                json!({ "name": "a", "cpuCount": "2" }),
                "`cpuCount`",
            ),
            (
                "POST",
                "/v2/templates",
                json!({ "name": "a", "memoryMB": 64 }),
                "`memoryMB` is 64; ask for at least 128",
            ),
            (
                "POST",
                &builds,
                json!({ "fromTemplate": 5 }),
                "`fromTemplate`",
            ),
            ("POST", &builds, of_base("steps", json!({})), "`steps`"),
            (
                "POST",
                &builds,
                of_base("steps", json!([{ "type": "RUN" }, "RUN x"])),
                "`steps[1]`",
            ),
            (
                "POST",
                &builds,
                of_base("steps", json!([{}])),
                "`steps[0].type` is missing",
            ),
            (
                "POST",
                &builds,
                of_base("steps", json!([{ "type": "RUN", "args": [1] }])),
                "`steps[0].args`",
            ),
            ("POST", &builds, of_base("startCmd", json!(5)), "`startCmd`"),
            ("POST", &builds, of_base("force", json!("yes")), "`force`"),
            (
                "POST",
                &builds,
                with_access(json!({ "type": "x" })),
                "use registry, gcp or aws",
            ),
            (
                "POST",
                &builds,
                with_access(json!({ "type": "gcp" })),
                "`fromImageRegistry.serviceAccountJson`",
            ),
            (
                "POST",
                "/templates/tags",
                json!({ "tags": ["v1"] }),
                "`target` is missing",
            ),
            (
                "POST",
                "/templates/tags",
                json!({ "target": "fields", "tags": "v1" }),
                "`tags`",
            ),
            (
                "DELETE",
                "/templates/tags",
                json!({ "name": "fields", "tags": [] }),
                "`tags` is empty",
            ),
            (
                "PATCH",
                "/v2/templates/fields",
                json!({ "public": "yes" }),
                "`public`",
            ),
        ] {
            let answer = world.control(method, path, Some(&body)).await;
            assert_eq!(answer.status, 400, "{body}: {}", answer.text());
            let told = answer.json();
            assert!(
                told["message"].as_str().unwrap().contains(named),
                "{body}: {told}"
            );
        }
        for path in ["status", "logs"] {
            let answer = world
                .control(
                    "GET",
                    &format!("/templates/{template}/builds/none/{path}"),
                    None,
                )
                .await;
            assert_eq!(answer.status, 404);
            assert!(
                answer.text().contains("build 'none' not found"),
                "{}",
                answer.text()
            );
        }
        let answer = world
            .control(
                "GET",
                &format!("/templates/{template}/builds/{build}/status?level=x"),
                None,
            )
            .await;
        assert!(
            answer.status == 400 && answer.text().contains("`level` is `x`; use debug"),
            "{}",
            answer.text()
        );
    });
}

#[test]
fn deleting_a_template_cancels_its_build() {
    World::run(async |world| {
        let (template, build) = requested(world, &Wanted::new("doomed")).await;
        let plan =
            json!({ "fromTemplate": "base", "steps": [step("RUN", &["echo begun; sleep 1000"])] });
        started(world, &template, &build, &plan).await;
        let path = format!("/templates/{template}/builds/{build}/status");
        while !world
            .control("GET", &path, None)
            .await
            .text()
            .contains("[stdout]: begun")
        {
            tokio::task::yield_now().await;
        }
        // A build session is not listed as a sandbox.
        assert_eq!(
            world.control("GET", "/v2/sandboxes", None).await.json(),
            json!([])
        );
        assert_eq!(sessions(world).await.len(), 1);
        assert_eq!(
            world
                .control("DELETE", &format!("/templates/{template}"), None)
                .await
                .status,
            204
        );
        assert_eq!(world.control("GET", &path, None).await.status, 404);
        while !sessions(world).await.is_empty() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn leftovers_of_an_interrupted_build_are_removed() {
    World::run(async |world| {
        let spec = SessionSpec {
            id: Some("e2bbuildleft".parse().unwrap()),
            ..SessionSpec::new(BaseName::new("host").unwrap())
        };
        let left = world.host.create_session(spec).await.unwrap();
        world
            .host
            .put_note(&left.id, "e2b-build", "some build")
            .await
            .unwrap();
        world
            .host
            .save_base(
                &left.id,
                None,
                &BaseName::new("e2b-build-left").unwrap(),
                None,
            )
            .await
            .unwrap();
        // The first call opens the catalogue and recovers it.
        assert_eq!(
            world.control("GET", "/templates", None).await.json(),
            json!([])
        );
        assert_eq!(sessions(world).await, Vec::<String>::new());
        let bases = world.host.list_bases().await.unwrap();
        assert!(
            bases
                .iter()
                .all(|base| !base.name.as_str().starts_with("e2b-")),
            "{bases:?}"
        );
    });
}
