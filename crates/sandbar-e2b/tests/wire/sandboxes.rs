//! Lifecycle of sandboxes.

use serde_json::json;

use crate::{client::Sandbox, world::World};

#[test]
fn sandbox_is_created_read_and_killed() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        assert_eq!(sandbox.http("GET", "/health", "").await.status, 204);
        let found = world
            .control("GET", &format!("/sandboxes/{}", sandbox.id), None)
            .await;
        assert_eq!(
            (found.status.as_u16(), found.json()["state"].as_str()),
            (200, Some("running"))
        );
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                .await
                .status,
            204
        );
        assert_eq!(
            world
                .control("DELETE", &format!("/sandboxes/{}", sandbox.id), None)
                .await
                .status,
            404
        );
        let gone = sandbox.http("GET", "/health", "").await;
        assert_eq!(
            (gone.status.as_u16(), gone.json()["message"].as_str()),
            (502, Some("The sandbox was not found"))
        );
    });
}

#[test]
fn call_without_a_valid_key_is_refused() {
    World::run(async |world| {
        for headers in [&[][..], &[("x-api-key", "e2b_00")]] {
            let answer = world
                .control_with("GET", "/sandboxes/s1", headers, None)
                .await;
            assert_eq!(
                (answer.status.as_u16(), answer.json()["code"].as_u64()),
                (401, Some(401))
            );
        }
    });
}

#[test]
fn connect_call_with_headers_of_a_sandbox_is_answered() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let connect = async || {
            let headers = [
                ("x-api-key", &*world.api_key),
                ("e2b-sandbox-id", &*sandbox.id),
                ("e2b-sandbox-port", "49983"),
            ];
            let path = format!("/sandboxes/{}/connect", sandbox.id);
            world
                .control_with("POST", &path, &headers, Some(&json!({ "timeout": 60 })))
                .await
        };
        let running = connect().await;
        assert_eq!(
            (
                running.status.as_u16(),
                running.json()["sandboxID"].as_str()
            ),
            (200, Some(&*sandbox.id))
        );
        assert_eq!(
            world
                .control("POST", &format!("/sandboxes/{}/pause", sandbox.id), None)
                .await
                .status,
            204
        );
        assert_eq!(connect().await.status, 201);
    });
}

#[test]
fn workspace_of_a_sandbox_belongs_to_user() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let told = sandbox
            .bash("touch /workspace/x && stat -c '%U %a' /workspace /workspace/x")
            .await;
        assert_eq!(told.text(), "user 755\nuser 644\n");
        assert_eq!(
            sandbox
                .as_user("root")
                .bash("touch /workspace/y && echo made")
                .await
                .text(),
            "made\n"
        );
    });
}

#[test]
fn sandbox_and_its_fork_resolve_their_own_host_names() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let path = format!("/sandboxes/{}/fork", sandbox.id);
        let forked = world
            .control("POST", &path, Some(&json!({ "count": 1, "timeout": 60 })))
            .await;
        let fork = Sandbox::of(world.address, &forked.json()[0]["sandbox"]);
        for sandbox in [sandbox, fork] {
            let told = sandbox
                .bash("hostname; cat /etc/hostname; getent ahostsv4 $(hostname) | head -1")
                .await;
            let lines: Vec<String> = told.text().lines().map(str::to_owned).collect();
            assert_eq!(lines[..2], [sandbox.id.clone(), sandbox.id.clone()]);
            assert!(lines[2].starts_with("127.0.0.1 "), "{lines:?}");
            assert_eq!(
                sandbox.bash("grep -c sandbar /etc/hosts").await.text(),
                "0\n"
            );
        }
    });
}

#[test]
fn proxy_of_a_sandbox_excludes_its_own_addresses() {
    World::run(async |world| {
        let sandbox = world.sandbox().await;
        let told = sandbox.bash("echo $no_proxy").await;
        assert_eq!(
            told.text(),
            format!("localhost,127.0.0.1,::1,0.0.0.0,::,{}\n", sandbox.id)
        );
    });
}
