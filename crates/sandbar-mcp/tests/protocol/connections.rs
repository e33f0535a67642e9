//! Requests on one connection, and its end.

use sandbar_mcp::Ended;
use serde_json::{Value, json};

use crate::world::{Connection, World};

/// Command that reports its start and waits to be killed.
fn waiting(file: &str) -> Value {
    json!({"name": "bash", "arguments": {"cmd": format!("echo $$ > {file}; exec sleep 1000")}})
}

async fn until(connection: &mut Connection, id: u64, condition: &str) {
    let cmd = format!("until {condition}; do sleep 0.02; done");
    let result = connection.tool(id, "bash", json!({"cmd": cmd})).await;
    assert_eq!(result["isError"], false, "{result}");
}

#[test]
fn concurrent_calls_are_answered_as_they_complete() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        connection.tool(1, "bash", json!({"cmd": "true"})).await;
        for id in 10..14 {
            let cmd = format!("until test -e go{id}; do sleep 0.02; done");
            connection
                .request(
                    json!(id),
                    "tools/call",
                    json!({"name": "bash", "arguments": {"cmd": cmd}}),
                )
                .await;
        }
        // Each call is unblocked by a later call, in reverse order. A call and the one that
        // unblocks it may be answered in either order; no other response may precede them.
        for id in (10..14).rev() {
            let release = json!({"name": "bash", "arguments": {"cmd": format!("echo > go{id}")}});
            connection
                .request(json!(id + 10), "tools/call", release)
                .await;
            let mut answered = [
                connection.receive().await["id"].as_u64(),
                connection.receive().await["id"].as_u64(),
            ];
            answered.sort_unstable();
            assert_eq!(answered, [Some(id), Some(id + 10)]);
        }
        connection.close().await;
    });
}

#[test]
fn retried_request_is_executed_once() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        connection.tool(1, "bash", json!({"cmd": "true"})).await;
        let slow = json!({"name": "bash", "arguments": {"cmd": "echo run >> runs; until test -e go; do sleep 0.02; done; cat runs"}});
        for _ in 0..3 {
            connection
                .request(json!(2), "tools/call", slow.clone())
                .await;
        }
        connection
            .request(
                json!(3),
                "tools/call",
                json!({"name": "bash", "arguments": {"cmd": "echo > go"}}),
            )
            .await;
        let mut answers = [connection.receive().await, connection.receive().await];
        answers.sort_by_key(|answer| answer["id"].as_u64());
        assert_eq!(answers[0]["result"]["content"][0]["text"], "run\n");
        // Also after its response: it is not executed again.
        assert_eq!(
            connection.ask(2, "tools/call", slow.clone()).await["result"]["content"][0]["text"],
            "run\n"
        );
        assert_eq!(
            connection.ask(4, "tools/call", slow).await["result"]["content"][0]["text"],
            "run\nrun\n"
        );
        connection.close().await;
    });
}

#[test]
fn cancelled_request_stops_its_command_without_response() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        connection.tool(1, "bash", json!({"cmd": "true"})).await;
        connection
            .request(json!("slow"), "tools/call", waiting("pid"))
            .await;
        until(&mut connection, 2, "test -s pid").await;
        connection
            .say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}))
            .await;
        until(&mut connection, 3, "! kill -0 $(cat pid) 2>/dev/null").await;
        connection.close().await;
    });
}

#[test]
fn connection_end_ends_calls_and_destroys_the_sandbox() {
    World::run(async |world| {
        for (way, expected) in [
            ("close", Ended::InputClosed),
            ("vanish", Ended::InputClosed),
            ("stop", Ended::Stopped),
        ] {
            let mut connection = world.greet("2025-06-18").await;
            connection.tool(1, "bash", json!({"cmd": "true"})).await;
            connection
                .request(json!(2), "tools/call", waiting("pid"))
                .await;
            until(&mut connection, 3, "test -s pid").await;
            assert_eq!(world.sandboxes().await.len(), 1);
            let ended = match way {
                "close" => connection.close().await,
                "vanish" => connection.vanish().await,
                _ => {
                    connection.stop.cancel();
                    connection.ended().await
                }
            };
            assert!(ended == expected || way == "vanish", "{way}: {ended:?}");
            assert!(world.sandboxes().await.is_empty(), "{way}");
        }
    });
}

#[test]
fn request_before_end_of_input_is_answered() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        let call = json!({"name": "bash", "arguments": {"cmd": "echo still here"}});
        connection.request(json!(1), "tools/call", call).await;
        connection.close_input().await;
        let answer = connection.receive().await;
        assert!(
            answer["id"] == 1 && answer.to_string().contains("still here"),
            "{answer}"
        );
        assert_eq!(connection.ended().await, Ended::InputClosed);
    });
}

#[test]
fn sandbox_in_creation_is_destroyed_at_disconnect() {
    World::run(async |world| {
        for _ in 0..5 {
            let mut connection = world.greet("2025-06-18").await;
            connection
                .request(
                    json!(1),
                    "tools/call",
                    json!({"name": "list_dir", "arguments": {}}),
                )
                .await;
            connection.close().await;
            assert!(world.sandboxes().await.is_empty());
        }
    });
}

#[test]
fn stop_does_not_wait_for_a_client_that_does_not_read() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        // More responses than pipe and queues hold.
        let long = "x".repeat(4000);
        for number in 0..100 {
            connection
                .request(json!(format!("{number}{long}")), "ping", json!({}))
                .await;
        }
        connection.stop.cancel();
        assert_eq!(connection.ended().await, Ended::Stopped);
    });
}
