//! MCP over streamable HTTP, at `/mcp` on the API's own port.

use bytes::Bytes;
use http::{Request, StatusCode, request::Builder};
use http_body_util::{BodyExt as _, Full};
use sandbar_client::WireProtocol;
use sandbar_core::{SessionId, TokenName};
use serde_json::{Value, json};

use crate::{
    raw::{Answer, Exchange, exchange, send},
    world::World,
};

const BOTH: &str = "application/json, text/event-stream";

/// Returns a request with all headers of a client of version 2025-06-18.
fn post(token: &str) -> Builder {
    Request::post("/mcp")
        .header("host", "localhost")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .header("accept", BOTH)
        .header("mcp-protocol-version", "2025-06-18")
}

fn body(message: &Value) -> Full<Bytes> {
    Full::new(message.to_string().into())
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    request(
        id,
        "tools/call",
        &json!({"name": tool, "arguments": arguments}),
    )
}

/// Client with a token and, after the handshake, an MCP session.
struct McpClient<'a> {
    world: &'a World,
    token: String,
    mcp_session: Option<String>,
}

impl<'a> McpClient<'a> {
    async fn start(world: &'a World, token: &str) -> Self {
        let greeting = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let mut client = Self {
            world,
            token: token.to_owned(),
            mcp_session: None,
        };
        let answer = client.send(&request(0, "initialize", &greeting)).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.json()["result"]["protocolVersion"], "2025-06-18");
        client.mcp_session = Some(
            answer.headers["mcp-session-id"]
                .to_str()
                .unwrap()
                .to_owned(),
        );
        let started = client
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        assert_eq!(
            (started.status, started.body.len()),
            (StatusCode::ACCEPTED, 0)
        );
        client
    }

    fn post(&self) -> Builder {
        let post = post(&self.token);
        match &self.mcp_session {
            Some(mcp_session) => post.header("mcp-session-id", mcp_session),
            None => post,
        }
    }

    async fn send(&self, message: &Value) -> Answer {
        send(self.world.address, self.post().body(body(message)).unwrap()).await
    }

    /// Calls a tool and returns its result.
    async fn tool(&self, id: u64, tool: &str, arguments: Value) -> Value {
        let answer = self.send(&call(id, tool, &arguments)).await;
        assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
        assert_eq!(answer.headers["content-type"], "application/json");
        let answer = answer.json();
        assert_eq!(answer["id"], id);
        answer["result"].clone()
    }

    /// Calls a tool, checks that it succeeded, and returns its text.
    async fn text(&self, id: u64, tool: &str, arguments: Value) -> String {
        let result = self.tool(id, tool, arguments).await;
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Starts a call with progress, and returns its events.
    async fn follow(&self, id: u64, tool: &str, arguments: &Value) -> Events {
        let mut message = call(id, tool, arguments);
        message["params"]["_meta"] = json!({"progressToken": 7});
        let exchange = exchange(
            self.world.address,
            self.post().body(body(&message)).unwrap(),
        )
        .await;
        assert_eq!(
            exchange.response.headers()["content-type"],
            "text/event-stream"
        );
        Events {
            exchange,
            read: String::new(),
        }
    }
}

/// Stream of server-sent events.
struct Events {
    exchange: Exchange,
    read: String,
}

impl Events {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let data = event
                    .lines()
                    .find_map(|line| line.strip_prefix("data: "))
                    .map(str::to_owned);
                self.read = String::from(rest);
                match data {
                    Some(data) => return Some(serde_json::from_str(&data).unwrap()),
                    None => continue,
                }
            }
            let frame = self.exchange.response.body_mut().frame().await?.unwrap();
            self.read
                .push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }
}

#[test]
fn mcp_client_creates_uses_rolls_back_and_destroys() {
    World::run(async |world| {
        let mcp = McpClient::start(world, &world.token).await;
        let listed = mcp.send(&request(1, "tools/list", &json!({}))).await.json();
        let tools = listed["result"]["tools"].as_array().unwrap();
        let names: Vec<&str> = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert!(
            names.contains(&"bash") && names.contains(&"expose_port"),
            "{names:?}"
        );
        let bash = tools.iter().find(|tool| tool["name"] == "bash").unwrap();
        assert_eq!(bash["inputSchema"]["required"], json!(["sandbox", "cmd"]));
        let made = mcp
            .tool(2, "sandbox_create", json!({"id": "box", "base": "small"}))
            .await;
        assert_eq!(made["structuredContent"]["sandbox"], "box");
        mcp.text(
            3,
            "write_file",
            json!({"sandbox": "box", "path": "a", "content": "one"}),
        )
        .await;
        mcp.text(4, "snapshot", json!({"sandbox": "box", "name": "before"}))
            .await;
        mcp.text(5, "bash", json!({"sandbox": "box", "cmd": "echo two > a"}))
            .await;
        mcp.text(
            6,
            "rollback",
            json!({"sandbox": "box", "snapshot": "before"}),
        )
        .await;
        assert_eq!(
            mcp.text(7, "bash", json!({"sandbox": "box", "cmd": "cat a"}))
                .await,
            "one"
        );
        let unnamed = mcp.tool(8, "bash", json!({"cmd": "true"})).await;
        assert_eq!(
            (&unnamed["isError"], &unnamed["_meta"]["sandbar/errorField"]),
            (&json!(true), &json!("sandbox"))
        );
        let reached = mcp
            .tool(9, "expose_port", json!({"sandbox": "box", "port": 80}))
            .await;
        assert_eq!(
            reached["structuredContent"]["reached_at"]["url"],
            "http://80-box.localhost/"
        );
        mcp.text(10, "sandbox_destroy", json!({"sandbox": "box"}))
            .await;
        assert!(mcp.text(11, "sandbox_list", json!({})).await.contains("[]"));
    });
}

#[test]
fn mcp_url_may_name_the_sandbox() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let id = world.session(&keeper).await.id;
        let at = |query: &str, message: &Value| {
            let mut request = post(&world.token).body(body(message)).unwrap();
            *request.uri_mut() = format!("/mcp?{query}").parse().unwrap();
            send(world.address, request)
        };
        let named = format!("x=1&sandbox={id}");
        let answer = at(&named, &call(1, "bash", &json!({"cmd": "echo hi"})))
            .await
            .json();
        assert_eq!(answer["result"]["content"][0]["text"], "hi\n");
        let listed = at(&named, &request(2, "tools/list", &json!({})))
            .await
            .json();
        let bash = listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == "bash")
            .unwrap();
        assert_eq!(bash["inputSchema"]["required"], json!(["cmd"]));
        assert_eq!(
            at("sandbox=../x", &request(3, "ping", &json!({})))
                .await
                .status,
            StatusCode::BAD_REQUEST
        );
    });
}

#[test]
fn mcp_has_the_permissions_of_the_token() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let (mine, other) = (
            world.session(&keeper).await.id,
            world.session(&keeper).await.id,
        );
        let token = async |name: &str, scope: String| {
            let made = keeper
                .create_token(
                    &TokenName::new(name).unwrap(),
                    &[scope.parse().unwrap()],
                    None,
                )
                .await;
            made.unwrap().secret.reveal().to_owned()
        };
        let denied = |result: &Value| {
            assert_eq!(result["isError"], true, "{result}");
            assert_eq!(
                result["_meta"]["sandbar/errorCode"], "PermissionDenied",
                "{result}"
            );
        };
        let reader = McpClient::start(world, &token("reader", "read".into()).await).await;
        assert!(
            reader
                .text(1, "sandbox_list", json!({}))
                .await
                .contains(mine.as_str())
        );
        assert!(
            reader
                .text(2, "logs", json!({"sandbox": mine}))
                .await
                .contains("processes")
        );
        let write = json!({"sandbox": mine, "path": "a", "content": "x"});
        denied(&reader.tool(3, "write_file", write.clone()).await);
        denied(&reader.tool(4, "snapshot", json!({"sandbox": mine})).await);
        denied(
            &reader
                .tool(5, "sandbox_destroy", json!({"sandbox": mine}))
                .await,
        );
        denied(
            &reader
                .tool(6, "sandbox_create", json!({"base": "small"}))
                .await,
        );

        let holder =
            McpClient::start(world, &token("holder", format!("session:{mine}")).await).await;
        holder.text(1, "write_file", write).await;
        denied(&holder.tool(2, "list_dir", json!({"sandbox": other})).await);
        denied(
            &holder
                .tool(3, "list_dir", json!({"sandbox": SessionId::random()}))
                .await,
        );
        denied(
            &holder
                .tool(4, "sandbox_create", json!({"base": "small"}))
                .await,
        );
        let listed = holder.text(5, "sandbox_list", json!({})).await;
        assert!(listed.contains(mine.as_str()) && !listed.contains(other.as_str()));

        for authorization in [None, Some("Bearer wrong"), Some("Basic x")] {
            let mut request = post("x")
                .body(body(&request(1, "ping", &json!({}))))
                .unwrap();
            request.headers_mut().remove("authorization");
            if let Some(authorization) = authorization {
                request
                    .headers_mut()
                    .insert("authorization", authorization.parse().unwrap());
            }
            let answer = send(world.address, request).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
            assert!(
                answer.headers["www-authenticate"]
                    .to_str()
                    .unwrap()
                    .starts_with("Bearer")
            );
        }
    });
}

#[test]
fn invalid_mcp_requests_get_http_errors() {
    World::run(async |world| {
        let ping = request(1, "ping", &json!({}));
        let with = |name: &'static str, value: Option<&str>| {
            let mut request = post(&world.token).body(body(&ping)).unwrap();
            request.headers_mut().remove(name);
            if let Some(value) = value {
                request.headers_mut().insert(name, value.parse().unwrap());
            }
            request
        };
        for (name, value, status) in [
            ("origin", Some("http://evil.example"), 403),
            ("origin", Some("null"), 403),
            ("origin", Some("http://localhost:6274"), 200),
            ("accept", Some("text/html"), 406),
            ("accept", Some("application/json"), 200),
            ("accept", None, 200),
            ("content-type", Some("text/plain"), 415),
            ("content-type", None, 415),
            ("mcp-protocol-version", Some("1999-01-01"), 400),
            ("mcp-protocol-version", Some("2025-11-25"), 200),
            ("mcp-protocol-version", None, 200),
            ("mcp-session-id", Some("whatever"), 200),
            ("last-event-id", Some("7"), 200),
            // As with `--listen 0.0.0.0`, any host name is accepted.
            ("host", Some("boxes.example:9100"), 200),
        ] {
            let answer = send(world.address, with(name, value)).await;
            assert_eq!(
                answer.status, status,
                "{name}: {value:?}: {:?}",
                answer.body
            );
        }
        for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
            let mut request = with("x", None);
            *request.method_mut() = method.parse().unwrap();
            let answer = send(world.address, request).await;
            assert_eq!(
                (answer.status, &answer.headers["allow"]),
                (StatusCode::METHOD_NOT_ALLOWED, &"POST".parse().unwrap())
            );
        }
        for (text, status, code) in [
            ("{".to_owned(), 400, -32700),
            ("7".to_owned(), 400, -32600),
            (
                r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#.to_owned(),
                400,
                -32600,
            ),
            (json!([ping]).to_string(), 400, -32600),
            (request(1, "nonsense", &json!({})).to_string(), 200, -32601),
            (call(1, "nonsense", &json!({})).to_string(), 200, -32602),
            (" ".repeat((16 << 20) + 1), 413, -32600),
        ] {
            let answer = send(
                world.address,
                post(&world.token).body(Full::new(text.into())).unwrap(),
            )
            .await;
            assert_eq!(
                (answer.status.as_u16(), &answer.json()["error"]["code"]),
                (status, &json!(code))
            );
        }
    });
}

#[test]
fn mcp_progress_streams_while_a_tool_runs() {
    World::run(async |world| {
        let mcp = McpClient::start(world, &world.token).await;
        let keeper = world.client(WireProtocol::Connect).await;
        let id = world.session(&keeper).await.id;
        let script = "echo begun; until test -e go; do sleep 0.02; done; echo done";
        let mut events = mcp
            .follow(1, "bash", &json!({"sandbox": id, "cmd": script}))
            .await;
        let first = events.next().await.unwrap();
        assert_eq!(
            (&first["method"], &first["params"]["message"]),
            (&json!("notifications/progress"), &json!("begun\n"))
        );
        assert_eq!(first["params"]["progressToken"], 7);
        mcp.text(2, "bash", json!({"sandbox": id, "cmd": "echo > go"}))
            .await;
        let second = events.next().await.unwrap();
        assert_eq!(second["params"]["message"], "done\n");
        assert!(second["params"]["progress"].as_f64() > first["params"]["progress"].as_f64());
        let answer = events.next().await.unwrap();
        assert_eq!(
            (&answer["id"], &answer["result"]["content"][0]["text"]),
            (&json!(1), &json!("begun\ndone\n"))
        );
        assert_eq!(events.next().await, None);
    });
}

/// Command that prints its pid and waits to be killed.
const WAITING: &str = "echo $$ > pid; echo begun; exec sleep 1000";
const GONE: &str = "while kill -0 $(cat pid) 2>/dev/null; do sleep 0.02; done";

#[test]
fn mcp_cancel_ends_only_its_own_call() {
    World::run(async |world| {
        let mcp = McpClient::start(world, &world.token).await;
        let other = McpClient::start(world, &world.token).await;
        let keeper = world.client(WireProtocol::Connect).await;
        let id = world.session(&keeper).await.id;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
        let mut events = mcp
            .follow(5, "bash", &json!({"sandbox": id, "cmd": WAITING}))
            .await;
        assert_eq!(events.next().await.unwrap()["params"]["message"], "begun\n");
        // The same request id in another MCP session is another request.
        assert_eq!(other.send(&cancel).await.status, StatusCode::ACCEPTED);
        assert_eq!(
            mcp.text(
                6,
                "bash",
                json!({"sandbox": id, "cmd": "kill -0 $(cat pid) && echo alive"})
            )
            .await,
            "alive\n"
        );
        assert_eq!(mcp.send(&cancel).await.status, StatusCode::ACCEPTED);
        assert_eq!(
            events.next().await,
            None,
            "a cancelled request has no answer"
        );
        mcp.text(7, "bash", json!({"sandbox": id, "cmd": GONE}))
            .await;

        // Also without an event stream.
        let message = call(
            5,
            "bash",
            &json!({"sandbox": id, "cmd": format!("echo > again; {WAITING}")}),
        );
        let waiting = tokio::spawn(send(
            world.address,
            mcp.post().body(body(&message)).unwrap(),
        ));
        mcp.text(
            8,
            "bash",
            json!({"sandbox": id, "cmd": "until test -e again; do sleep 0.02; done"}),
        )
        .await;
        assert_eq!(mcp.send(&cancel).await.status, StatusCode::ACCEPTED);
        let answer = waiting.await.unwrap();
        assert_eq!(
            (answer.status, answer.body.len()),
            (StatusCode::ACCEPTED, 0)
        );
        mcp.text(9, "bash", json!({"sandbox": id, "cmd": GONE}))
            .await;
    });
}

#[test]
fn mcp_client_disconnect_ends_its_call() {
    World::run(async |world| {
        let mcp = McpClient::start(world, &world.token).await;
        let keeper = world.client(WireProtocol::Connect).await;
        let id = world.session(&keeper).await.id;
        let mut events = mcp
            .follow(1, "bash", &json!({"sandbox": id, "cmd": WAITING}))
            .await;
        events.next().await.unwrap();
        drop(events);
        mcp.text(2, "bash", json!({"sandbox": id, "cmd": GONE}))
            .await;
        // Also without an event stream.
        let message = call(
            3,
            "bash",
            &json!({"sandbox": id, "cmd": format!("echo > begun; {WAITING}")}),
        );
        let waiting = tokio::spawn(exchange(
            world.address,
            mcp.post().body(body(&message)).unwrap(),
        ));
        mcp.text(
            4,
            "bash",
            json!({"sandbox": id, "cmd": "until test -e begun; do sleep 0.02; done"}),
        )
        .await;
        waiting.abort();
        mcp.text(5, "bash", json!({"sandbox": id, "cmd": GONE}))
            .await;
    });
}

#[test]
fn mcp_retry_is_executed_once_within_its_session() {
    World::run(async |world| {
        let mcp = McpClient::start(world, &world.token).await;
        let other = McpClient::start(world, &world.token).await;
        let keeper = world.client(WireProtocol::Connect).await;
        let id = world.session(&keeper).await.id;
        let count = json!({"sandbox": id, "cmd": "echo run >> runs; cat runs"});
        for _ in 0..2 {
            assert_eq!(mcp.text(1, "bash", count.clone()).await, "run\n");
        }
        assert_eq!(other.text(1, "bash", count.clone()).await, "run\nrun\n");
        assert_eq!(mcp.text(2, "bash", count.clone()).await, "run\nrun\nrun\n");
        // A call may have an explicit id, across callers.
        let mut named = call(9, "bash", &count);
        named["params"]["_meta"] = json!({"sandbar/toolCallId": "mine"});
        for client in [&mcp, &other] {
            let answer = client.send(&named).await.json();
            assert_eq!(answer["result"]["content"][0]["text"], "run\n".repeat(4));
        }
    });
}

#[test]
fn stateless_mcp_needs_no_handshake() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let id = world.session(&keeper).await.id;
        let modern = |method: &str, mut params: Value, headers: &[(&'static str, &str)]| {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let mut request = post(&world.token)
                .body(body(&request(1, method, &params)))
                .unwrap();
            request
                .headers_mut()
                .insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
            for (name, value) in headers {
                request.headers_mut().insert(*name, value.parse().unwrap());
            }
            send(world.address, request)
        };
        let found = modern(
            "server/discover",
            json!({}),
            &[("mcp-method", "server/discover")],
        )
        .await;
        assert_eq!(
            (found.status, found.headers.get("mcp-session-id")),
            (StatusCode::OK, None)
        );
        let found = found.json()["result"].clone();
        assert_eq!(found["resultType"], "complete");
        assert!(
            found["supportedVersions"]
                .as_array()
                .unwrap()
                .contains(&json!("2026-07-28"))
        );
        assert_eq!(
            found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
            "sandbar"
        );
        let params = json!({"name": "bash", "arguments": {"sandbox": id, "cmd": "echo hi"}});
        let headers = [("mcp-method", "tools/call"), ("mcp-name", "bash")];
        let called = modern("tools/call", params.clone(), &headers).await.json();
        assert_eq!(
            (
                &called["result"]["content"][0]["text"],
                &called["result"]["resultType"]
            ),
            (&json!("hi\n"), &json!("complete"))
        );
        let listed = modern("tools/list", json!({}), &[("mcp-method", "tools/list")])
            .await
            .json();
        assert!(listed["result"]["ttlMs"].is_u64() && listed["result"]["cacheScope"] == "private");
        for (answer, status, code) in [
            (
                modern("tools/call", params.clone(), &headers[..1]).await,
                400,
                -32020,
            ),
            (
                modern("tools/call", params, &[headers[0], ("mcp-name", "ls")]).await,
                400,
                -32020,
            ),
            (
                modern("ping", json!({}), &[("mcp-method", "ping")]).await,
                404,
                -32601,
            ),
            (
                modern("initialize", json!({}), &[("mcp-method", "initialize")]).await,
                404,
                -32601,
            ),
        ] {
            assert_eq!(
                (answer.status.as_u16(), &answer.json()["error"]["code"]),
                (status, &json!(code))
            );
        }
    });
}

#[test]
fn curl_calls_an_mcp_tool_with_progress() {
    World::run(async |world| {
        let keeper = world.client(WireProtocol::Connect).await;
        let id = world.session(&keeper).await.id;
        let mut message = call(1, "bash", &json!({"sandbox": id, "cmd": "echo hi"}));
        let curl = async |message: &Value| {
            let output = tokio::process::Command::new("curl")
                .args([
                    "-sS",
                    "-N",
                    "--fail-with-body",
                    &format!("{}/mcp", world.url()),
                ])
                .args(["-H", &format!("authorization: Bearer {}", world.token)])
                .args([
                    "-H",
                    "content-type: application/json",
                    "-d",
                    &message.to_string(),
                ])
                .output()
                .await
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let answer: Value = serde_json::from_str(&curl(&message).await).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "hi\n");
        message["params"]["_meta"] = json!({"progressToken": "p"});
        let streamed = curl(&message).await;
        assert_eq!(streamed.matches("data: ").count(), 2, "{streamed}");
        assert!(streamed.contains("notifications/progress") && streamed.ends_with("\n\n"));
    });
}
