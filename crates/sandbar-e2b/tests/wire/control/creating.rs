//! Creating sandboxes.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{assert_refused, moment};
use crate::{client::Sandbox, world::World};

#[test]
fn create_response_has_all_fields_sdks_need() {
    World::run(async |world| {
        let answer = world
            .post("/v2/sandboxes", json!({ "templateID": "base" }))
            .await;
        assert_eq!(answer.status, 201);
        let made = answer.json();
        for field in [
            "templateID",
            "sandboxID",
            "clientID",
            "envdVersion",
            "envdAccessToken",
        ] {
            assert!(
                made[field].as_str().is_some_and(|text| !text.is_empty()),
                "{field}: {made}"
            );
        }
        assert!(made["trafficAccessToken"].is_null(), "{made}");
        assert_eq!(
            made["domain"],
            format!("localhost:{}", world.address.port()),
            "what the names of its ports end in"
        );
        let id = made["sandboxID"].as_str().unwrap();
        assert!(
            id.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
            "{id}"
        );
        assert_eq!(
            Sandbox::of(world.address, &made)
                .http("GET", "/health", "")
                .await
                .status,
            204
        );
    });
}

#[test]
fn default_timeout_depends_on_the_version_of_create() {
    World::run(async |world| {
        for (path, seconds) in [("/sandboxes", 15), ("/v2/sandboxes", 300)] {
            let made = world
                .post(path, json!({ "templateID": "base" }))
                .await
                .json();
            let info = world.info(&Sandbox::of(world.address, &made)).await;
            let lives = moment(&info["endAt"]).duration_since(moment(&info["startedAt"]));
            assert_eq!(lives.as_secs(), seconds, "{path}");
        }
    });
}

#[test]
fn info_has_the_requested_metadata_and_lifecycle() {
    World::run(async |world| {
        let metadata = json!({ "user": "ada", "with space": "ä=b&c" });
        let sandbox = world
            .sandbox_with(json!({
                "templateID": "base", "timeout": 60, "metadata": metadata,
                "autoPause": true, "autoResume": { "enabled": true }, "allow_internet_access": false,
            }))
            .await;
        let info = world.info(&sandbox).await;
        assert_eq!(info["metadata"], metadata);
        assert_eq!(
            info["lifecycle"],
            json!({ "onTimeout": "pause", "autoResume": true })
        );
        assert_eq!(info["allowInternetAccess"], false);
        assert_eq!(info["templateID"], "base");
        for field in ["cpuCount", "memoryMB", "diskSizeMB"] {
            assert!(
                info[field].as_u64().is_some_and(|number| number > 0),
                "{field}: {info}"
            );
        }
    });
}

#[test]
fn default_lifecycle_is_kill_without_auto_resume() {
    World::run(async |world| {
        let info = world.info(&world.sandbox().await).await;
        assert_eq!(
            info["lifecycle"],
            json!({ "onTimeout": "kill", "autoResume": false })
        );
        assert!(info["allowInternetAccess"].is_null());
    });
}

#[test]
fn variables_of_create_reach_commands() {
    World::run(async |world| {
        let sandbox = world
            .sandbox_with(json!({ "templateID": "base", "envVars": { "GREETING": "hello there" } }))
            .await;
        assert_eq!(
            world.shell(&sandbox, "printf %s \"$GREETING\"").await,
            "hello there"
        );
    });
}

#[test]
fn twenty_concurrent_creates_all_work() {
    World::run(async |world| {
        let made = futures::future::join_all((0..20).map(|number| async move {
            world
                .sandbox_with(
                    json!({ "templateID": "base", "metadata": { "number": number.to_string() } }),
                )
                .await
        }))
        .await;
        let ids: HashSet<&str> = made.iter().map(|sandbox| sandbox.id.as_str()).collect();
        assert_eq!(ids.len(), 20);
        let output = futures::future::join_all(
            made.iter()
                .map(|sandbox| world.shell(sandbox, "echo $$ > /mine; cat /mine")),
        )
        .await;
        assert!(output.iter().all(|text| !text.is_empty()));
        let listed = world.get("/v2/sandboxes").await.json();
        assert_eq!(listed.as_array().unwrap().len(), 20);
    });
}

#[test]
fn retried_create_makes_no_second_sandbox() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "metadata": { "a": "b" } });
        let headers = [
            ("x-api-key", world.api_key.as_str()),
            ("idempotency-key", "6ba7b810-9dad"),
        ];
        let send = || world.control_with("POST", "/v2/sandboxes", &headers, Some(&body));
        let answers = futures::future::join_all((0..5).map(|_| send())).await;
        let first = answers[0].json();
        for answer in &answers {
            assert_eq!((answer.status.as_u16(), &answer.json()), (201, &first));
        }
        assert_eq!(
            world
                .get("/v2/sandboxes")
                .await
                .json()
                .as_array()
                .unwrap()
                .len(),
            1
        );
    });
}

#[test]
fn idempotency_key_of_another_request_is_refused() {
    World::run(async |world| {
        let headers = [
            ("x-api-key", world.api_key.as_str()),
            ("idempotency-key", "k1"),
        ];
        let one = json!({ "templateID": "base" });
        assert_eq!(
            world
                .control_with("POST", "/v2/sandboxes", &headers, Some(&one))
                .await
                .status,
            201
        );
        let other = json!({ "templateID": "base", "timeout": 7 });
        let answer = world
            .control_with("POST", "/v2/sandboxes", &headers, Some(&other))
            .await;
        assert_refused(&answer, 409, &["Idempotency-Key"]);
    });
}

#[test]
fn idempotency_key_of_a_killed_sandbox_is_reusable() {
    World::run(async |world| {
        let headers = [
            ("x-api-key", world.api_key.as_str()),
            ("idempotency-key", "k1"),
        ];
        let body = json!({ "templateID": "base" });
        let made = world
            .control_with("POST", "/v2/sandboxes", &headers, Some(&body))
            .await
            .json();
        let sandbox = Sandbox::of(world.address, &made);
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                .await
                .status,
            204
        );
        assert_eq!(
            world
                .control_with("POST", "/v2/sandboxes", &headers, Some(&body))
                .await
                .status,
            201
        );
        assert_eq!(world.state(&sandbox).await, "running");
    });
}

#[test]
fn unknown_template_is_named_in_the_error() {
    World::run(async |world| {
        let answer = world
            .post("/v2/sandboxes", json!({ "templateID": "nonesuch" }))
            .await;
        assert_refused(&answer, 404, &["nonesuch", "base"]);
    });
}

#[test]
fn unknown_fields_are_ignored() {
    World::run(async |world| {
        let body = json!({ "templateID": "base", "brandNew": { "deep": [1] }, "network": { "alsoNew": 1 }, "metadata": null });
        assert_eq!(world.post("/v2/sandboxes", body).await.status, 201);
    });
}

#[test]
fn invalid_fields_are_refused_by_name() {
    World::run(async |world| {
        let with = |field: &str, value: Value| {
            let mut body = json!({ "templateID": "base" });
            body[field] = value;
            body
        };
        for (body, field) in [
            (json!({}), "templateID"),
            (json!({ "templateID": 7 }), "templateID"),
            (json!({ "templateID": "" }), "templateID"),
            (with("timeout", json!("soon")), "timeout"),
            (with("timeout", json!(-1)), "timeout"),
            (with("timeout", json!(0)), "timeout"),
            (with("timeout", json!(1.5)), "timeout"),
            (with("timeout", json!(99_999_999_999_u64)), "timeout"),
            (with("metadata", json!({ "a": 1 })), "metadata"),
            (with("metadata", json!(["a"])), "metadata"),
            (with("metadata", json!({ "": "x" })), "metadata"),
            (with("envVars", json!({ "A=B": "x" })), "envVars"),
            (with("envVars", json!("A=B")), "envVars"),
            (with("autoPause", json!("yes")), "autoPause"),
            (with("autoResume", json!(true)), "autoResume"),
            (
                with("autoResume", json!({ "enabled": "yes" })),
                "autoResume.enabled",
            ),
            (
                with("allow_internet_access", json!("no")),
                "allow_internet_access",
            ),
            (with("network", json!([])), "network"),
            (
                with("network", json!({ "allowOut": "1.1.1.1" })),
                "network.allowOut",
            ),
        ] {
            assert_refused(
                &world.post("/v2/sandboxes", body.clone()).await,
                400,
                &[field],
            );
        }
        assert!(
            world
                .get("/v2/sandboxes")
                .await
                .json()
                .as_array()
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn body_that_is_not_json_is_refused() {
    World::run(async |world| {
        for bad in ["{", "[]", "null", "templateID=base"] {
            let body: &str = bad;
            let request = http::Request::post("/v2/sandboxes")
                .header("host", "x")
                .header("x-api-key", &world.api_key)
                .body(http_body_util::Full::from(body.to_owned()))
                .unwrap();
            assert_refused(
                &crate::client::send(world.address, request).await,
                400,
                &["JSON"],
            );
        }
    });
}

#[test]
fn auto_resume_excludes_pausing_without_memory() {
    World::run(async |world| {
        let body = json!({
            "templateID": "base", "autoPause": true, "autoPauseMemory": false, "autoResume": { "enabled": true },
        });
        assert_refused(
            &world.post("/v2/sandboxes", body).await,
            400,
            &["autoPauseMemory", "autoResume"],
        );
    });
}

#[test]
fn unsecured_sandbox_needs_no_access_token() {
    World::run(async |world| {
        let made = world
            .post(
                "/sandboxes",
                json!({ "templateID": "base", "timeout": 60, "secure": false }),
            )
            .await
            .json();
        assert!(made["envdAccessToken"].is_null(), "{made}");
        assert_eq!(
            Sandbox::of(world.address, &made)
                .http("GET", "/health", "")
                .await
                .status,
            204
        );
    });
}

#[test]
fn private_sandbox_has_a_traffic_token_and_must_be_secure() {
    World::run(async |world| {
        let mut body = json!({ "templateID": "base", "timeout": 60, "network": { "allowPublicTraffic": false } });
        let made = world.post("/sandboxes", body.clone()).await.json();
        assert!(
            made["trafficAccessToken"]
                .as_str()
                .is_some_and(|token| !token.is_empty()),
            "{made}"
        );
        body["secure"] = json!(false);
        assert_refused(&world.post("/sandboxes", body).await, 400, &["secure"]);
    });
}

#[test]
fn create_beyond_the_session_limit_is_refused_at_once() {
    World::run_with(
        |config| config.max_sessions = 1,
        None,
        async |world| {
            world.sandbox().await;
            let answer = world
                .post("/v2/sandboxes", json!({ "templateID": "base" }))
                .await;
            assert_refused(&answer, 429, &["at most 1"]);
            assert_eq!(answer.headers["should-retry"], "false");
        },
    );
}

#[test]
fn root_of_a_sandbox_can_change_owners_and_users() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let output = world
            .shell(
                &sandbox,
                "touch /owned && chown 1000:1000 /owned && stat -c %u /owned",
            )
            .await;
        assert_eq!(output, "1000\n");
    });
}

#[test]
fn python_is_available_as_python() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let output = world
            .shell(
                &sandbox,
                "bash -l -c 'python -c \"print(6 * 7)\"'; su user -l -c 'command -v python'",
            )
            .await;
        assert!(output.starts_with("42\n/"), "{output}");
    });
}
