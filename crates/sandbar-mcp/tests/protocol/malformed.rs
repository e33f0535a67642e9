//! Malformed messages.

use sandbar_mcp::Ended;
use serde_json::json;

use crate::world::World;

/// Expected outcome of a message.
#[derive(Clone, Copy)]
enum Outcome {
    Skipped,
    /// Rejected without an id, or skipped: `rmcp` loses the error when a response is written at the
    /// same time.
    NoMessage,
    Refused(i64),
}

#[test]
fn malformed_message_is_rejected_and_connection_continues() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let call = |params: &str| {
            format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}"#)
        };
        let cases = [
            // Input that is not JSON has no id to respond to.
            ("{", Outcome::Skipped),
            ("nonsense", Outcome::Skipped),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "ping""#,
                Outcome::Skipped,
            ),
            (deep.as_str(), Outcome::Skipped),
            ("", Outcome::Skipped),
            ("  \r", Outcome::Skipped),
            // JSON that is not a message.
            (r#""text""#, Outcome::NoMessage),
            ("[]", Outcome::NoMessage),
            ("[1]", Outcome::NoMessage),
            (r#"{"jsonrpc": "2.0"}"#, Outcome::NoMessage),
            (r#"{"jsonrpc": "2.0", "id": 1}"#, Outcome::NoMessage),
            (
                r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#,
                Outcome::NoMessage,
            ),
            (r#"{"id": "a", "method": "ping"}"#, Outcome::NoMessage),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": null}"#,
                Outcome::NoMessage,
            ),
            // Invalid requests.
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": ""}"#,
                Outcome::Refused(-32601),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}"#,
                Outcome::Refused(-32601),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}"#,
                Outcome::Refused(-32601),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}"#,
                Outcome::Refused(-32601),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}"#,
                Outcome::Refused(-32602),
            ),
            (&call(r#"{"name": 7}"#), Outcome::Refused(-32602)),
            (&call(r#"{"name": "no"}"#), Outcome::Refused(-32602)),
            (
                &call(r#"{"name": "glob", "arguments": []}"#),
                Outcome::Refused(-32602),
            ),
            (
                &call(r#"{"name": "glob", "_meta": {"sandbar/toolCallId": 7}}"#),
                Outcome::Refused(-32602),
            ),
            // Unknown notifications, and responses to no request.
            (
                r#"{"jsonrpc": "2.0", "method": "notifications/nonsense", "params": {"a": 1}}"#,
                Outcome::Skipped,
            ),
            (
                r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}"#,
                Outcome::Skipped,
            ),
            (
                r#"{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "bash"}}"#,
                Outcome::Skipped,
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 5, "result": {}}"#,
                Outcome::Skipped,
            ),
        ];
        let mut wrong = Vec::new();
        for (number, (text, expected)) in (100..).zip(cases) {
            connection.say_bytes(format!("{text}\n").as_bytes()).await;
            connection.request(json!(number), "ping", json!({})).await;
            let (mut answers, mut pinged) = (Vec::new(), false);
            // The error and the response to the ping may arrive in either order.
            while !pinged || (answers.is_empty() && matches!(expected, Outcome::Refused(_))) {
                let answer = connection.receive().await;
                if answer["id"] == number {
                    pinged = true;
                } else {
                    answers.push((
                        answer["error"]["code"].as_i64().unwrap_or_default(),
                        answer["id"].clone(),
                    ));
                }
            }
            let right = match (expected, answers.as_slice()) {
                (Outcome::Skipped | Outcome::NoMessage, []) => true,
                (Outcome::NoMessage, [(code, id)]) => *code == -32600 && id.is_null(),
                (Outcome::Refused(expected), [(code, id)]) => *code == expected && *id == 1,
                _ => false,
            };
            if !right {
                wrong.push((text.to_owned(), answers));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(connection.close().await, Ended::InputClosed);
        assert!(
            world.sandboxes().await.is_empty(),
            "none of this has made a sandbox"
        );
    });
}

#[test]
fn line_beyond_the_limit_is_skipped() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        let piece = vec![b'x'; 1 << 16];
        for _ in 0..=(16 << 20) / piece.len() {
            connection.say_bytes(&piece).await;
        }
        connection.say_bytes(b"\n").await;
        assert_eq!(
            connection.ask(1, "ping", json!({})).await["result"],
            json!({})
        );
        connection.close().await;
    });
}

#[test]
fn invalid_arguments_are_a_tool_error_with_a_hint() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        let cases = [
            ("read_file", json!({}), "path"),
            ("read_file", json!({"path": "a", "lines": 1}), "lines"),
            ("read_file", json!({"path": "missing"}), "missing"),
            ("read_file", json!({"path": "a", "sandbox": 7}), "sandbox"),
            ("read_file", json!({"path": "a", "sandbox": "../x"}), "../x"),
            ("read_file", json!({"path": "a", "sandbox": "gone"}), "gone"),
            ("rollback", json!({}), "snapshot"),
            ("rollback", json!({"snapshot": "gone"}), "gone"),
            (
                "rollback",
                json!({"snapshot": "a", "colour": "red"}),
                "colour",
            ),
            ("diff", json!({"from": "gone"}), "gone"),
            ("fork", json!({"count": 0}), "0"),
            ("fork", json!({"count": -1}), "-1"),
            ("launch", json!({"argv": []}), "argv"),
            ("launch", json!({"argv": ["a"], "ready": "soon"}), "soon"),
            ("logs", json!({"process": "gone"}), "gone"),
            ("expose_port", json!({"port": 0}), "port"),
            ("expose_port", json!({"port": 70000}), "70000"),
            ("sandbox_create", json!({"base": "gone"}), "gone"),
            ("sandbox_create", json!({"network": "open"}), "open"),
            ("sandbox_destroy", json!({}), "sandbox"),
            ("sandbox_list", json!({"state": "odd"}), "odd"),
        ];
        for (number, (tool, arguments, word)) in (1..).zip(cases) {
            let result = connection.tool(number, tool, arguments.clone()).await;
            let text = result["content"][0]["text"].as_str().unwrap();
            assert_eq!(result["isError"], true, "{tool} {arguments}: {text}");
            let named = text.contains(word) || result["_meta"]["sandbar/errorField"] == word;
            assert!(named, "{tool} {arguments}: {result}");
        }
        connection.close().await;
    });
}
