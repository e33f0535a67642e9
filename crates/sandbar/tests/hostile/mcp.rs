//! The Model Context Protocol with the token of one session.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    attacker::{Attacker, assert_no_fault},
    attempt::attempts,
    http::{self, Answer},
};

attempts! {
    call_flood,
    calls_cancelled,
    streams_never_read,
    arguments_of_great_length,
    calls_for_another_sandbox,
    output_beyond_the_limit,
    batches_and_noise,
    expensive_searches,
}

impl Attacker {
    async fn mcp(&self, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        let target = format!("/mcp?sandbox={}", self.id);
        http::request(
            self.address,
            "POST",
            &target,
            &headers,
            body.to_string().as_bytes(),
        )
        .await
    }

    async fn mcp_many(self: &Arc<Self>, bodies: Vec<Value>) {
        let mut running = JoinSet::new();
        for body in bodies {
            if running.len() >= 40 {
                running.join_next().await.unwrap().unwrap();
            }
            let attacker = Arc::clone(self);
            running.spawn(async move {
                let answer = attacker.mcp(&body).await;
                assert_no_fault("mcp", &answer);
            });
        }
        running.join_all().await;
    }
}

fn call(id: usize, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}})
}

async fn call_flood(attacker: Arc<Attacker>) {
    let bodies = (0..200)
        .map(|id| match id % 4 {
            0 => call(id, "bash", &json!({"cmd": "true"})),
            1 => call(id, "list_dir", &json!({"path": "/usr/bin"})),
            2 => json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}),
            _ => call(id, "snapshot", &json!({})),
        })
        .collect();
    attacker.mcp_many(bodies).await;
}

async fn calls_cancelled(attacker: Arc<Attacker>) {
    let mut running = JoinSet::new();
    for id in 0..80 {
        let attacker = Arc::clone(&attacker);
        running.spawn(async move {
            let body = call(id, "bash", &json!({"cmd": "sleep 1000"}));
            let _ = tokio::time::timeout(Duration::from_millis(300), attacker.mcp(&body)).await;
        });
    }
    running.join_all().await;
    attacker.hold(3).await;
}

async fn streams_never_read(attacker: Arc<Attacker>) {
    let bearer = format!("Bearer {}", attacker.token);
    let mut body = call(1, "bash", &json!({"cmd": "yes"}));
    body["params"]["_meta"] = json!({"progressToken": "p"});
    let body = body.to_string();
    let length = body.len().to_string();
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("content-length", length.as_str()),
    ];
    let request = http::head("POST", &format!("/mcp?sandbox={}", attacker.id), &headers) + &body;
    let mut kept = Vec::new();
    for _ in 0..40 {
        kept.extend(http::send(attacker.address, request.as_bytes()).await.ok());
    }
    attacker.hold(8).await;
}

async fn arguments_of_great_length(attacker: Arc<Attacker>) {
    let long = "{".repeat(8 << 20);
    let bodies = [
        call(1, "glob", &json!({"pattern": long})),
        call(
            2,
            "write_file",
            &json!({"path": "/workspace/a", "content": long}),
        ),
        call(3, &long, &json!({})),
        call(4, "launch", &json!({"argv": vec!["a"; 200_000]})),
    ];
    attacker.mcp_many(bodies.to_vec()).await;
}

async fn calls_for_another_sandbox(attacker: Arc<Attacker>) {
    let tools = [
        ("bash", json!({"cmd": "true"})),
        ("read_file", json!({"path": "listed/file-0.txt"})),
        ("rollback", json!({"snapshot": "s"})),
        ("sandbox_destroy", json!({})),
        ("logs", json!({})),
        ("expose_port", json!({"port": 80})),
        ("diff", json!({"from": "s"})),
    ];
    for (id, (tool, mut arguments)) in tools.into_iter().enumerate() {
        arguments["sandbox"] = json!("probe");
        let answer = attacker.mcp(&call(id, tool, &arguments)).await;
        assert!(
            answer.text.contains("\"isError\":true") || answer.text.contains("\"error\""),
            "{tool}: {answer:?}"
        );
    }
    let made = attacker.mcp(&call(9, "sandbox_create", &json!({}))).await;
    assert!(
        made.text.contains("\"isError\":true") || made.text.contains("\"error\""),
        "{made:?}"
    );
}

async fn output_beyond_the_limit(attacker: Arc<Attacker>) {
    let bodies = (0..30)
        .map(|id| {
            call(
                id,
                "bash",
                &json!({"cmd": "yes | head -c 9000000; yes 1>&2", "timeout_ms": 2000}),
            )
        })
        .collect();
    attacker.mcp_many(bodies).await;
}

async fn batches_and_noise(attacker: Arc<Attacker>) {
    let one = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let bodies = vec![
        Value::Array(vec![one.clone(); 20_000]),
        json!({"jsonrpc": "1.0", "id": {"a": 1}, "method": 7}),
        json!({"jsonrpc": "2.0", "id": "i".repeat(1 << 20), "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "m".repeat(1 << 20)}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!(null),
    ];
    attacker.mcp_many(bodies).await;
}

async fn expensive_searches(attacker: Arc<Attacker>) {
    let bodies = (0..6)
        .map(|id| match id % 2 {
            0 => call(
                id,
                "grep",
                &json!({"pattern": "(\\w+\\s){20}zzz", "path": "/usr/lib/python3"}),
            ),
            _ => call(id, "glob", &json!({"pattern": "/usr/**/*{a,b}*{c,d}*.zzz"})),
        })
        .collect();
    attacker.mcp_many(bodies).await;
}
