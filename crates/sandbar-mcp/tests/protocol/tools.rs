//! Results of tools.

use std::collections::HashMap;

use sandbar_core::{SessionId, WriteOptions};
use serde_json::{Value, json};

use crate::{
    schema::{check, tool_result},
    world::World,
};

#[test]
fn structured_results_match_their_output_schemas() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        let listed = connection.ask(1, "tools/list", json!({})).await["result"]["tools"].clone();
        let outputs: HashMap<&str, &Value> = (listed.as_array().unwrap().iter())
            .filter_map(|tool| Some((tool["name"].as_str().unwrap(), tool.get("outputSchema")?)))
            .collect();
        let script = [
            (
                "sandbox_create",
                json!({"id": "box", "base": "small", "labels": {"a": "b"}, "ttl_seconds": 3600, "env": {"A": "b"}}),
            ),
            (
                "write_file",
                json!({"sandbox": "box", "path": "a", "content": "one"}),
            ),
            ("snapshot", json!({"sandbox": "box"})),
            ("snapshot", json!({"sandbox": "box", "name": "before"})),
            (
                "bash",
                json!({"sandbox": "box", "cmd": "echo two > a; echo > b; echo $A"}),
            ),
            ("diff", json!({"sandbox": "box", "from": "before"})),
            (
                "fork",
                json!({"sandbox": "box", "from": "before", "count": 2, "labels": {"c": "d"}}),
            ),
            ("fork", json!({"sandbox": "box", "ids": ["copy"]})),
            (
                "rollback",
                json!({"sandbox": "box", "snapshot": "before", "keep_later": true}),
            ),
            (
                "launch",
                json!({"sandbox": "box", "argv": ["sh", "-c", "echo begun; sleep 1000"], "ready": "log", "ready_text": "begun", "restart": "on-failure"}),
            ),
            ("logs", json!({"sandbox": "box"})),
            ("expose_port", json!({"sandbox": "box", "port": 8000})),
            ("sandbox_list", json!({"state": "active"})),
            ("sandbox_destroy", json!({"sandbox": "copy"})),
        ];
        let mut seen = Vec::new();
        for (number, (tool, arguments)) in (2..).zip(script) {
            let result = connection.tool(number, tool, arguments.clone()).await;
            check(&tool_result(), &result);
            assert_eq!(result["isError"], false, "{tool} {arguments}: {result}");
            if let Some(schema) = outputs.get(tool) {
                check(schema, &result["structuredContent"]);
                let text: Value =
                    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
                assert_eq!(text, result["structuredContent"]);
                seen.push(tool);
            }
        }
        assert!(
            outputs.keys().all(|name| seen.contains(name)),
            "{outputs:?} {seen:?}"
        );
        connection.close().await;
    });
}

#[test]
fn launched_process_is_listed_with_its_output() {
    World::run(async |world| {
        let mut connection = world.greet("2025-06-18").await;
        let argv = ["sh", "-c", "echo out; echo err >&2; echo ready; sleep 1000"];
        let launched = connection
            .tool(
                1,
                "launch",
                json!({"argv": argv, "ready": "log", "ready_text": "ready"}),
            )
            .await;
        let process = launched["structuredContent"]["process"].clone();
        assert_eq!(launched["structuredContent"]["status"], "running");
        let logs = connection
            .tool(2, "logs", json!({"process": process}))
            .await;
        let text = logs["content"][0]["text"].as_str().unwrap();
        assert!(
            ["out\n", "err\n", "ready\n"]
                .iter()
                .all(|line| text.contains(line)),
            "{text}"
        );
        let errors = connection
            .tool(
                3,
                "logs",
                json!({"process": process, "stream": "stderr", "tail": 1}),
            )
            .await;
        assert_eq!(errors["content"][0]["text"], "err\n");
        let failed = json!({"argv": ["sh", "-c", "echo last words; exit 3"], "ready": "log", "ready_text": "never"});
        let failed = connection.tool(4, "launch", failed).await;
        assert_eq!(failed["isError"], true);
        assert!(
            failed["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("last words"),
            "{failed}"
        );
        connection.close().await;
    });
}

#[test]
fn image_and_exit_code_are_in_the_result() {
    World::run(async |world| {
        let mut connection = world.greet("2025-11-25").await;
        connection
            .tool(1, "sandbox_create", json!({"id": "box", "base": "small"}))
            .await;
        let picture = b"\x89PNG\r\n\x1a\nrest".to_vec();
        let source = std::io::Cursor::new(picture);
        let id = SessionId::new("box").unwrap();
        world
            .client
            .write_file(&id, "a.png".as_ref(), WriteOptions::default(), source)
            .await
            .unwrap();
        let seen = connection
            .tool(2, "read_file", json!({"sandbox": "box", "path": "a.png"}))
            .await;
        check(&tool_result(), &seen);
        let image = seen["content"]
            .as_array()
            .unwrap()
            .iter()
            .find(|block| block["type"] == "image")
            .unwrap();
        assert_eq!(
            (&image["mimeType"], &image["data"]),
            (&json!("image/png"), &json!("iVBORw0KGgpyZXN0"))
        );
        let failed = connection
            .tool(
                3,
                "bash",
                json!({"sandbox": "box", "cmd": "echo no >&2; exit 7"}),
            )
            .await;
        assert_eq!(
            (&failed["isError"], &failed["_meta"]["sandbar/exitCode"]),
            (&json!(true), &json!(7))
        );
        assert_eq!(
            failed["content"],
            json!([{"type": "text", "text": "no\n"}, {"type": "text", "text": "[exit code 7]"}])
        );
        connection.close().await;
    });
}

#[test]
fn progress_increases_and_precedes_the_result() {
    World::run(async |world| {
        for version in ["2024-11-05", "2025-06-18"] {
            let mut connection = world.greet(version).await;
            let call = json!({
                "name": "bash",
                "arguments": {"cmd": "echo one; sleep 0.05; echo two; sleep 0.05; echo three"},
                "_meta": {"progressToken": 42},
            });
            connection.request(json!(1), "tools/call", call).await;
            let (mut last, mut said) = (0.0, String::new());
            let answer = loop {
                let message = connection.receive().await;
                if message.get("id").is_some() {
                    break message;
                }
                let params = &message["params"];
                assert_eq!(params["progressToken"], 42);
                assert!(params["progress"].as_f64().unwrap() > last);
                last = params["progress"].as_f64().unwrap();
                said.push_str(params["message"].as_str().unwrap_or_default());
            };
            assert_eq!(answer["result"]["content"][0]["text"], "one\ntwo\nthree\n");
            assert_eq!(
                said,
                if version == "2024-11-05" {
                    ""
                } else {
                    "one\ntwo\nthree\n"
                }
            );
            connection.close().await;
        }
    });
}
