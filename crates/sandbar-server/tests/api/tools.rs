//! Tools over the wire.

use sandbar_client::{Client, WireProtocol};
use sandbar_core::{
    ContentBlock, ErrorCode, Resources, SessionId, ToolCallId, ToolEvent, ToolRequest,
    ToolResponse, ToolTier,
};
use serde_json::{Value, json};

use crate::world::{PROTOCOLS, World};

fn request(call: &str, tool: &str, params: Value) -> ToolRequest {
    let Value::Object(params) = params else {
        panic!("parameters are an object")
    };
    ToolRequest {
        tool: tool.into(),
        call: ToolCallId::new(call).unwrap(),
        params,
        resources: Resources::default(),
    }
}

async fn follow(client: &Client, id: &SessionId, request: &ToolRequest) -> (String, ToolResponse) {
    let mut tool = client.execute_tool_stream(id, request).await.unwrap();
    let mut told = String::new();
    loop {
        match tool.next_event().await.unwrap().unwrap() {
            ToolEvent::Progress(progress) => told.push_str(&progress.content),
            ToolEvent::Finished(answer) => {
                assert_eq!(tool.next_event().await.unwrap(), None);
                return (told, answer);
            }
        }
    }
}

#[test]
fn tools_work_over_every_protocol_streamed_or_not() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let session = world.session(&keeper).await;
        for (number, protocol) in PROTOCOLS.into_iter().enumerate() {
            let client = world.client(protocol).await;
            let tools = client.list_tools().await.unwrap();
            assert_eq!(tools, sandbar_tools::list_tools());
            let write = request(
                &format!("w{number}"),
                "write_file",
                json!({"path": "f", "content": "ünï\n"}),
            );
            assert_eq!(
                client.execute_tool(&session.id, &write).await.unwrap().tier,
                ToolTier::Host
            );
            let script = json!({"cmd": "cat f; echo $A >&2; exit 3", "env": {"A": "b"}, "timeout_ms": 60_000});
            let call = request(&format!("b{number}"), "bash", script);
            let (told, answer) = follow(&client, &session.id, &call).await;
            assert_eq!(
                (answer.exit_code, answer.is_error, answer.tier),
                (Some(3), true, ToolTier::Sandbox)
            );
            assert!(
                told.contains("ünï\n") && told.contains("b\n") && told == answer.content,
                "{told}"
            );
            // A repeated call has the same result, streamed or not.
            assert_eq!(
                client.execute_tool(&session.id, &call).await.unwrap(),
                answer
            );
            assert_eq!(
                follow(&client, &session.id, &call).await,
                (String::new(), answer)
            );
        }
    });
}

#[test]
fn tool_image_survives_the_wire() {
    World::run(async |world| {
        let client = world.client(WireProtocol::ConnectJson).await;
        let session = world.session(&client).await;
        let picture = [b"\x89PNG\r\n\x1a\n".as_slice(), &[0, 255].repeat(2 << 20)].concat();
        let source = std::io::Cursor::new(picture.clone());
        let options = sandbar_core::WriteOptions::default();
        client
            .write_file(&session.id, "picture.png".as_ref(), options, source)
            .await
            .unwrap();
        let answer = client
            .execute_tool(
                &session.id,
                &request("1", "read_file", json!({"path": "picture.png"})),
            )
            .await;
        let expected = ContentBlock::Image {
            media_type: "image/png".into(),
            data: picture.into(),
        };
        assert!(answer.unwrap().content_blocks == [expected]);
    });
}

#[test]
fn invalid_tool_call_names_the_field_over_every_protocol() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let session = world.session(&client).await;
            for (bad, field) in [
                (request("1", "nonsense", json!({})), "tool_name"),
                (
                    request("2", "read_file", json!({"path": "f", "lines": 1})),
                    "lines",
                ),
                (
                    request("3", "git_show", json!({"ref": "--output=x"})),
                    "ref",
                ),
            ] {
                let unary = client.execute_tool(&session.id, &bad).await.unwrap_err();
                assert_eq!(
                    (unary.code(), unary.field()),
                    (ErrorCode::InvalidArgument, Some(field))
                );
                let mut stream = client.execute_tool_stream(&session.id, &bad).await.unwrap();
                let streamed = stream.next_event().await.unwrap_err();
                assert_eq!(
                    (streamed.code(), streamed.field()),
                    (ErrorCode::InvalidArgument, Some(field))
                );
            }
            let missing = SessionId::new("missing").unwrap();
            let missing = client
                .execute_tool(&missing, &request("4", "list_dir", json!({})))
                .await
                .unwrap_err();
            assert_eq!(missing.code(), ErrorCode::SessionNotFound);
        }
    });
}

#[test]
fn curl_calls_a_tool_with_plain_json() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let session = world.session(&client).await;
        let body = json!({
            "sessionId": session.id.as_str(),
            "toolName": "bash",
            "toolCallId": "1",
            "params": {"cmd": "echo hi", "timeout_ms": 5000, "env": {"A": "b"}},
        });
        let answer = world.call("ExecuteTool", &body).await.json();
        assert_eq!(answer["result"]["content"], "hi\n");
        assert_eq!(answer["result"]["exitCode"].as_i64().unwrap_or_default(), 0);
        let unnamed = json!({"sessionId": session.id.as_str(), "toolName": "bash", "params": {"cmd": "true"}});
        let refused = world.call("ExecuteTool", &unnamed).await;
        assert_eq!(refused.json()["code"], "invalid_argument");
        assert_eq!(refused.detail()["field"], "tool_call_id");
    });
}

#[test]
fn caller_disconnect_ends_the_tool() {
    World::run(async |world| {
        for protocol in PROTOCOLS {
            let client = world.client(protocol).await;
            let session = world.session(&client).await;
            let script = "echo $$ > pid; echo run >> runs; cat runs; test -e go || sleep 1000";
            let waiting = request("1", "bash", json!({"cmd": script}));
            let mut tool = client
                .execute_tool_stream(&session.id, &waiting)
                .await
                .unwrap();
            assert!(matches!(
                tool.next_event().await.unwrap(),
                Some(ToolEvent::Progress(_))
            ));
            drop(tool);
            let gone = "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.02; done; echo > go";
            let gone = client
                .execute_tool(&session.id, &request("2", "bash", json!({"cmd": gone})))
                .await
                .unwrap();
            assert!(!gone.is_error, "{}", gone.content);
            // The call was cancelled, so it is executed again.
            let again = client.execute_tool(&session.id, &waiting).await.unwrap();
            assert_eq!(again.content, "run\nrun\n");

            let script = "echo $$ > other; sleep 1000";
            let unary = request("3", "bash", json!({"cmd": script}));
            let waiting = tokio::spawn({
                let (client, id) = (client.clone(), session.id.clone());
                async move { client.execute_tool(&id, &unary).await }
            });
            let begun = request(
                "4",
                "bash",
                json!({"cmd": "until test -s other; do sleep 0.02; done"}),
            );
            client.execute_tool(&session.id, &begun).await.unwrap();
            waiting.abort();
            let gone = "while kill -0 $(cat other) 2>/dev/null; do sleep 0.02; done";
            let gone = client
                .execute_tool(&session.id, &request("5", "bash", json!({"cmd": gone})))
                .await
                .unwrap();
            assert!(!gone.is_error, "{}", gone.content);
        }
    });
}
