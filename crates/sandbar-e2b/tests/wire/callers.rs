//! Tokens on the calls of another session, and the call limit, over every surface of the host.

use bytes::Bytes;
use http::{Request, request::Builder};
use http_body_util::Full;
use sandbar_core::{TokenName, TokenScope};
use sandbar_e2b::api_key;
use sandbar_testing::plain_http::Exchange;
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, io::AsyncWriteExt as _, net::TcpStream};

use crate::{
    client::{Answer, exchange, frame, send},
    ports::{PORT, serve_in},
    signed_urls::signed,
    world::World,
};

/// Scope that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Read,
    Use,
    Admin,
}

/// Surface of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surface {
    Native,
    Rest,
    Envd,
    Files,
    Interpreter,
    Ingress,
    Mcp,
}

use Scope::{Admin, Read, Use};
use Surface::{Envd, Files, Ingress, Interpreter, Mcp, Native, Rest};

/// A call about one sandbox, without a credential.
struct Call {
    surface: Surface,
    scope: Scope,
    name: String,
    request: Builder,
    body: Bytes,
}

fn native(scope: Scope, method: &str, body: &Value) -> Call {
    Call {
        surface: Native,
        scope,
        name: method.to_owned(),
        request: Request::post(format!("/sandbar.v1.SandboxService/{method}"))
            .header("host", "localhost")
            .header("content-type", "application/json"),
        body: body.to_string().into(),
    }
}

fn rest(scope: Scope, method: &str, path: &str) -> Call {
    let body = json!({ "timeout": 9000, "duration": 900, "snapshot": "x", "autoPause": true });
    let has_body = !matches!(method, "GET" | "DELETE");
    Call {
        surface: Rest,
        scope,
        name: format!("{method} {path}"),
        request: Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json"),
        body: if has_body {
            body.to_string().into()
        } else {
            Bytes::new()
        },
    }
}

/// Returns a request to a port of a sandbox by the headers of the SDKs.
fn to_port(id: &str, port: u16, method: &str, path: &str) -> Builder {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("e2b-sandbox-id", id)
        .header("e2b-sandbox-port", port)
}

fn at_port(surface: Surface, request: Builder, body: impl Into<Bytes>) -> Call {
    Call {
        surface,
        scope: Use,
        name: format!("{:?} {:?}", request.method_ref(), request.uri_ref()),
        request,
        body: body.into(),
    }
}

fn envd(id: &str, procedure: &str, body: &Value) -> Call {
    let request = to_port(id, 49_983, "POST", &format!("/{procedure}"));
    at_port(
        Envd,
        request.header("content-type", "application/json"),
        body.to_string(),
    )
}

fn start(id: &str) -> Call {
    let request = to_port(id, 49_983, "POST", "/process.Process/Start");
    let body = json!({ "process": { "cmd": "sleep", "args": ["1000"] } });
    at_port(
        Envd,
        request.header("content-type", "application/connect+json"),
        frame(0, &body.to_string()),
    )
}

fn by_name(id: &str, path: &str) -> Call {
    let host = format!("{PORT}-{id}.localhost");
    at_port(Ingress, Request::get(path).header("host", host), "")
}

fn mcp(id: &str, tool: &str) -> Call {
    let arguments = json!({ "sandbox": id, "cmd": "id", "path": "/workspace/secret" });
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    });
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-06-18");
    Call {
        surface: Mcp,
        scope: Use,
        name: format!("mcp {tool}"),
        request,
        body: message.to_string().into(),
    }
}

/// Returns calls about a sandbox on every surface. The last one destroys it.
fn calls(id: &str) -> Vec<Call> {
    let session = json!({ "sessionId": id });
    let with = |more: Value| {
        let mut body = session.clone();
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        body
    };
    let path = with(json!({ "path": "/workspace/secret" }));
    let tool = with(json!({ "toolName": "bash", "toolCallId": "1", "params": { "cmd": "id" } }));
    let mut calls = vec![
        native(Read, "GetSession", &session),
        native(Read, "GetNetwork", &session),
        native(Read, "ListSnapshots", &session),
        native(Read, "ListProcesses", &session),
        native(Read, "Stat", &path),
        native(Read, "Audit", &session),
        native(Use, "ExecuteTool", &tool),
        native(Use, "MakeDir", &path),
        native(Use, "RemovePath", &path),
        native(Use, "PauseSession", &session),
        native(Use, "ResumeSession", &session),
        native(Use, "HibernateSession", &session),
        native(Use, "CreateSnapshot", &session),
        native(Use, "TurnComplete", &session),
        native(Use, "RollbackSession", &with(json!({ "snapshot": "x" }))),
        native(Admin, "SetExpiry", &with(json!({ "timeToLive": "9000s" }))),
        native(Admin, "SetNetwork", &session),
        native(Admin, "ForkSession", &session),
    ];
    let path = |rest: &str| format!("/sandboxes/{id}{rest}");
    calls.extend([
        rest(Read, "GET", &path("")),
        rest(Read, "GET", &path("/metrics")),
        rest(Read, "GET", &format!("/v2{}", path("/logs"))),
        rest(Read, "GET", &format!("/sandbar{}", path("/snapshots"))),
        rest(Admin, "POST", &path("/timeout")),
        rest(Admin, "POST", &path("/refreshes")),
        rest(Admin, "POST", &path("/fork")),
        rest(Admin, "POST", &format!("/v2{}", path("/fork"))),
        rest(Admin, "POST", &path("/snapshots")),
        rest(Admin, "PUT", &path("/network")),
        rest(Use, "POST", &path("/connect")),
        rest(Use, "POST", &format!("/v2{}", path("/connect"))),
        rest(Use, "POST", &path("/resume")),
        rest(Use, "POST", &path("/pause")),
        rest(Use, "POST", &format!("/sandbar{}", path("/turns"))),
        rest(Use, "POST", &format!("/sandbar{}", path("/rollback"))),
    ]);
    let secret = json!({ "path": "/workspace/secret" });
    let file = "/files?path=/workspace/secret";
    calls.extend([
        start(id),
        envd(id, "process.Process/List", &json!({})),
        envd(id, "filesystem.Filesystem/ListDir", &secret),
        envd(id, "filesystem.Filesystem/Stat", &secret),
        envd(id, "filesystem.Filesystem/Remove", &secret),
        at_port(Envd, to_port(id, 49_983, "GET", "/envs"), ""),
        at_port(Files, to_port(id, 49_983, "GET", file), ""),
        at_port(Files, to_port(id, 49_983, "POST", file), "new"),
        at_port(Interpreter, to_port(id, 49_999, "GET", "/contexts"), ""),
        at_port(Interpreter, to_port(id, 49_999, "POST", "/execute"), "{}"),
        at_port(Ingress, to_port(id, PORT, "GET", "/"), ""),
        by_name(id, "/"),
        mcp(id, "bash"),
        mcp(id, "read_file"),
        native(Use, "DestroySession", &session),
        rest(Use, "DELETE", &path("")),
    ]);
    calls
}

/// Adds a token in every header that carries one.
fn everywhere(request: Builder, token: &str) -> Builder {
    request
        .header("authorization", format!("Bearer {token}"))
        .header("x-api-key", api_key(token))
        .header("x-access-token", token)
        .header("x-sandbar-token", token)
        .header("x-sandbar-traffic-token", token)
        .header("e2b-traffic-access-token", token)
        .header("cookie", format!("sandbar_traffic_token={token}"))
}

async fn ask(world: &World, call: Call, token: &str) -> Answer {
    let request = everywhere(call.request, token);
    send(world.address, request.body(Full::new(call.body)).unwrap()).await
}

fn is_refused(answer: &Answer) -> bool {
    matches!(answer.status.as_u16(), 401 | 403) || answer.text().contains("\"isError\":true")
}

async fn token(world: &World, name: &str, scope: &str) -> String {
    let scope: TokenScope = scope.parse().unwrap();
    let made = world
        .host
        .create_token(&TokenName::new(name).unwrap(), vec![scope], None)
        .await
        .unwrap();
    made.secret.reveal().to_owned()
}

fn private() -> Value {
    json!({ "templateID": "base", "timeout": 300, "network": { "allowPublicTraffic": false } })
}

#[test]
fn tokens_of_one_sandbox_do_nothing_in_another() {
    World::run(async |world| {
        let own = world.sandbox_with(private()).await;
        let other = world.sandbox_with(private()).await;
        other.write("/workspace/secret", b"of the other").await;
        let session = token(world, "session", &format!("session:{}", own.id)).await;
        let read = token(world, "read", "read").await;
        let (access, traffic) = (
            own.access_token.clone().unwrap(),
            own.traffic_token.clone().unwrap(),
        );
        let end = async |id: &str| {
            let told = world
                .control("GET", &format!("/sandboxes/{id}"), None)
                .await;
            assert_eq!(told.json()["state"], "running", "{}", told.text());
            told.json()["endAt"].clone()
        };
        let before = (end(&own.id).await, end(&other.id).await);
        for (owner, token) in [
            ("session", &session),
            ("access", &access),
            ("traffic", &traffic),
        ] {
            for call in calls(&other.id) {
                let name = format!("{owner}: {}", call.name);
                let answer = ask(world, call, token).await;
                assert!(
                    is_refused(&answer),
                    "{name}: {} {}",
                    answer.status,
                    answer.text()
                );
                assert!(!answer.text().contains("of the other"), "{name}");
            }
        }
        // Reading is what scope `read` is for, on the API and the REST API only.
        for call in calls(&other.id) {
            let (name, scope) = (call.name.clone(), call.scope);
            let answer = ask(world, call, &read).await;
            assert_eq!(
                is_refused(&answer),
                scope != Read,
                "{name}: {}",
                answer.text()
            );
        }
        // Nothing of the session's own gives it more time, or more rights.
        for call in calls(&own.id) {
            let name = call.name.clone();
            let (is_api, scope) = (matches!(call.surface, Native | Rest | Mcp), call.scope);
            if scope == Admin {
                let answer = ask(world, call, &session).await;
                assert!(is_refused(&answer), "session: {name}: {}", answer.text());
            } else if is_api {
                let answer = ask(world, call, &access).await;
                assert!(is_refused(&answer), "access: {name}: {}", answer.text());
            }
        }
        // A signed URL is for one file of one sandbox.
        let link = signed(&own, "/workspace/secret", "read", None, None);
        for (id, method) in [(&other.id, "GET"), (&other.id, "POST"), (&own.id, "POST")] {
            let request = to_port(id, 49_983, method, &link).body(Full::default());
            let answer = send(world.address, request.unwrap()).await;
            assert_eq!(answer.status.as_u16(), 401, "{method} {}", answer.text());
        }
        assert_eq!((end(&own.id).await, end(&other.id).await), before);
        assert_eq!(
            other.get("/workspace/secret", &[]).await.text(),
            "of the other"
        );
    });
}

async fn hold(world: &World, call: Call, header: (&str, &str)) -> Exchange {
    let request = call.request.header(header.0, header.1);
    let held = exchange(world.address, request.body(Full::new(call.body)).unwrap()).await;
    assert_eq!(held.response.status(), 200);
    held
}

/// Waits until the slots of calls that the client has ended are free.
async fn free(world: &World, call: impl Fn() -> Call, token: &str) {
    while ask(world, call(), token).await.status == 429 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn call_limit_of_a_token_holds_on_every_surface() {
    World::run_limited(1, async |world| {
        let sandbox = world.sandbox_with(private()).await;
        let id = sandbox.id.as_str();
        serve_in(world, id).await;
        let session = token(world, "session", &format!("session:{id}")).await;
        let key = api_key(&session);
        let stat = || native(Read, "Stat", &json!({ "sessionId": id, "path": "/" }));
        let limited = async || {
            for call in calls(id).into_iter().filter(|call| call.scope != Admin) {
                let name = call.name.clone();
                // Not the tokens of the sandbox, which have a limit of their own.
                let request = call
                    .request
                    .header("authorization", format!("Bearer {session}"))
                    .header("x-api-key", &key)
                    .header("x-sandbar-token", &session);
                let request = request.body(Full::new(call.body)).unwrap();
                let answer = send(world.address, request).await;
                assert_eq!(answer.status.as_u16(), 429, "{name}: {}", answer.text());
                assert!(answer.text().contains("max_calls_per_token"), "{name}");
            }
        };
        // A stream of envd, and a WebSocket through ingress.
        let held = hold(world, start(id), ("x-api-key", &key)).await;
        limited().await;
        drop(held);
        free(world, stat, &session).await;
        let mut socket = TcpStream::connect(world.address).await.unwrap();
        let request = format!(
            "GET /socket HTTP/1.1\r\nHost: {PORT}-{id}.localhost\r\nX-Sandbar-Token: {session}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with("hello ") {
            answer.push(char::from(socket.read_u8().await.unwrap()));
        }
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        limited().await;
        drop(socket);
        free(world, stat, &session).await;
    });
}

#[test]
fn call_limit_holds_for_the_tokens_of_a_sandbox() {
    World::run_limited(1, async |world| {
        let sandbox = world.sandbox_with(private()).await;
        let id = sandbox.id.as_str();
        serve_in(world, id).await;
        let (access, traffic) = (
            sandbox.access_token.clone().unwrap(),
            sandbox.traffic_token.clone().unwrap(),
        );
        let held = hold(world, start(id), ("x-access-token", &access)).await;
        let link = signed(&sandbox, "/etc/hostname", "read", None, None);
        let mut requests = vec![
            Request::get(&link).header("host", "localhost"),
            to_port(id, 49_983, "GET", &link),
        ];
        let calls = || calls(id).into_iter();
        let is_of_envd = |call: &Call| matches!(call.surface, Envd | Files | Interpreter);
        requests.extend(
            calls()
                .filter(is_of_envd)
                .map(|call| call.request.header("x-access-token", &access)),
        );
        requests.extend(
            calls()
                .filter(|call| call.surface == Ingress)
                .map(|call| call.request.header("e2b-traffic-access-token", &traffic)),
        );
        for request in requests {
            let request = request.body(Full::default()).unwrap();
            let name = format!("{} {}", request.method(), request.uri());
            let answer = send(world.address, request).await;
            assert_eq!(answer.status.as_u16(), 429, "{name}: {}", answer.text());
        }
        // Peers at a public port, and tokens of the host, have slots of their own.
        let told = world
            .control("GET", &format!("/sandboxes/{id}"), None)
            .await;
        assert_eq!(told.status.as_u16(), 200, "{}", told.text());
        drop(held);
    });
}
