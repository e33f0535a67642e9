//! What a broken client may send.

use sandbar_mcp::Ended;
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn every_malformed_message_gets_its_error_and_the_connection_goes_on() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let cases = [
            ("{", -32700, Value::Null),
            ("nonsense", -32700, Value::Null),
            ("{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"", -32700, Value::Null),
            (deep.as_str(), -32700, Value::Null),
            ("\"text\"", -32600, Value::Null),
            ("[]", -32600, Value::Null),
            ("[1]", -32600, Value::Null),
            (r#"{"jsonrpc": "2.0"}"#, -32600, Value::Null),
            (r#"{"jsonrpc": "2.0", "id": 1}"#, -32600, json!(1)),
            (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, -32600, json!(1)),
            (r#"{"id": "a", "method": "ping"}"#, -32600, json!("a")),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, -32600, Value::Null),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, -32600, Value::Null),
            (r#"{"jsonrpc": "2.0", "id": [1], "method": "ping"}"#, -32600, Value::Null),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": null}"#, -32600, json!(1)),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}"#, -32600, json!(1)),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": 7}}"#, -32602, json!(1)),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": ""}"#, -32601, json!(1)),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}"#, -32601, json!(1)),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}"#, -32601, json!(1)),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}"#, -32601, json!(1)),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}"#, -32602, json!(1)),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}}"#, -32602, json!(1)),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "no"}}"#, -32602, json!(1)),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "glob", "arguments": []}}"#,
                -32602,
                json!(1),
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {"progressToken": []}}}"#,
                -32602,
                json!(1),
            ),
        ];
        for (text, code, id) in cases {
            connection.say_bytes(format!("{text}\n").as_bytes()).await;
            let answer = connection.hear().await;
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{text}");
        }
        // Neither are answered: notifications nobody knows, answers to nothing, empty lines.
        for silent in [
            r#"{"jsonrpc": "2.0", "method": "notifications/nonsense", "params": {"a": 1}}"#,
            r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}"#,
            r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}"#,
            r#"{"jsonrpc": "2.0", "method": "notifications/cancelled"}"#,
            r#"{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "bash", "arguments": {"cmd": "true"}}}"#,
            r#"{"jsonrpc": "2.0", "id": 5, "result": {}}"#,
            "",
            "  \r",
        ] {
            connection.say_bytes(format!("{silent}\n").as_bytes()).await;
        }
        assert_eq!(connection.ask(2, "ping", json!({})).await["result"], json!({}));
        assert_eq!(connection.close().await, Ended::InputClosed);
        assert!(world.sandboxes().await.is_empty(), "none of this has made a sandbox");
    });
}

#[test]
fn a_line_that_never_ends_takes_no_memory_and_costs_only_itself() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        let piece = vec![b'x'; 1 << 16];
        for _ in 0..=(16 << 20) / piece.len() {
            connection.say_bytes(&piece).await;
        }
        connection.say_bytes(b"\n").await;
        let answer = connection.hear().await;
        assert_eq!(answer["error"]["code"], -32700);
        assert!(answer.get("id").is_none());
        assert_eq!(connection.ask(1, "ping", json!({})).await["result"], json!({}));
        connection.close().await;
    });
}

#[test]
fn arguments_that_make_no_sense_are_an_answer_a_model_can_act_on() {
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
            ("rollback", json!({"snapshot": "a", "colour": "red"}), "colour"),
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
