//! Protocol versions.

use sandbar_mcp::DefaultSandbox;
use serde_json::{Value, json};

use crate::{
    schema::{check, tool},
    world::World,
};

const BY_HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn modern(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn every_protocol_version_is_served() {
    World::run(async |world| {
        for version in BY_HANDSHAKE {
            let mut connection = world.greet(version).await;
            assert_eq!(
                connection.ask(1, "ping", json!({})).await["result"],
                json!({})
            );
            let listed =
                connection.ask(3, "tools/list", json!({})).await["result"]["tools"].clone();
            let tools = listed.as_array().unwrap();
            assert_eq!(tools.len(), sandbar_tools::list_tools().len() + 10);
            let has = |name: &str| tools.iter().any(|tool| tool.get(name).is_some());
            for listed in tools {
                check(&tool(), listed);
            }
            assert_eq!(has("annotations"), version >= "2025-03-26");
            assert_eq!(
                (has("title"), has("outputSchema")),
                (version >= "2025-06-18", version >= "2025-06-18")
            );
            let listed = connection.tool(4, "sandbox_list", json!({})).await;
            assert_eq!(
                listed.get("structuredContent").is_some(),
                version >= "2025-06-18"
            );
            assert_eq!(listed.get("resultType"), None);
            connection
                .say(&json!([{"jsonrpc": "2.0", "id": 5, "method": "ping"}]))
                .await;
            connection.request(json!(6), "ping", json!({})).await;
            let first = connection.receive().await;
            // Batches are not supported. `rmcp` loses the error when a response is written at the
            // same time.
            assert!(
                first["id"] == 6 || first["error"]["code"] == -32600,
                "{first}"
            );
            connection.close().await;
        }
    });
}

#[test]
fn unknown_version_is_offered_the_newest_with_handshake() {
    World::run(async |world| {
        for asked in ["1900-01-01", "2099-12-31", "2026-07-28"] {
            let mut connection = world.connect();
            let greeting = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            let answer = connection.ask(1, "initialize", greeting).await;
            assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
            assert_eq!(
                answer["result"]["capabilities"]["tools"],
                json!({"listChanged": false})
            );
            assert!(
                answer["result"]["instructions"]
                    .as_str()
                    .unwrap()
                    .contains("sandbox")
            );
            connection.close().await;
        }
    });
}

#[test]
fn stateless_request_needs_no_handshake() {
    World::run(async |world| {
        let mut connection = world.connect();
        let found = connection
            .ask(1, "server/discover", json!({"_meta": modern("2026-07-28")}))
            .await;
        let found = &found["result"];
        let versions: Vec<&str> = found["supportedVersions"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert!(
            versions.contains(&"2026-07-28")
                && BY_HANDSHAKE
                    .iter()
                    .all(|version| versions.contains(version))
        );
        assert_eq!(
            (&found["resultType"], &found["cacheScope"]),
            (&json!("complete"), &json!("private"))
        );
        let listed = connection
            .ask(2, "tools/list", json!({"_meta": modern("2026-07-28")}))
            .await;
        assert!(listed["result"]["ttlMs"].is_u64());
        let call = json!({"name": "sandbox_list", "arguments": {}, "_meta": modern("2026-07-28")});
        let called = connection.ask(3, "tools/call", call).await;
        assert_eq!(called["result"]["resultType"], "complete");
        assert_eq!(
            called["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
            "sandbar"
        );
        for (method, meta, code) in [
            ("ping", modern("2026-07-28"), -32601),
            ("initialize", modern("2026-07-28"), -32601),
            ("tools/list", modern("1900-01-01"), -32022),
            (
                "tools/list",
                json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}),
                -32602,
            ),
        ] {
            let answer = connection.ask(4, method, json!({"_meta": meta})).await;
            assert_eq!(answer["error"]["code"], code, "{method} {meta}");
        }
        connection.close().await;
    });
}

#[test]
fn tools_are_in_stable_order_and_require_a_sandbox() {
    World::run(async |world| {
        let mut connection = world
            .greet_with("2025-06-18", DefaultSandbox::nothing())
            .await;
        let first = connection.ask(1, "tools/list", json!({})).await["result"].clone();
        assert_eq!(
            connection.ask(2, "tools/list", json!({})).await["result"],
            first
        );
        for tool in first["tools"].as_array().unwrap() {
            let needs = ["sandbox_create", "sandbox_list"]
                .iter()
                .all(|name| tool["name"] != *name);
            let required = tool["inputSchema"]["required"].as_array().unwrap();
            assert_eq!(required.contains(&json!("sandbox")), needs, "{tool}");
        }
        let refused = connection.tool(3, "list_dir", json!({})).await;
        assert!(
            refused["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("sandbox_create")
        );
        connection.close().await;
    });
}
