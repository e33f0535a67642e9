//! Limits on the number and duration of calls.

use std::{net::SocketAddr, time::Duration};

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use sandbar_client::{Client, WireProtocol};
use sandbar_core::{
    AccessToken, ErrorCode, ExecEvent, ExecSpec, LogQuery, ProcessSpec, StdinMode, WaitFor,
};
use sandbar_server::{RunningServer, ServerConfig, serve};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::{
    exec::Watched,
    ingress::pieces,
    raw::{exchange, frames, send, unframe},
    world::{PROTOCOLS, World, shell},
};

/// Second server of the same host.
pub(crate) struct Bounded {
    server: RunningServer,
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
}

impl Bounded {
    pub(crate) async fn start(world: &World, change: impl FnOnce(&mut ServerConfig)) -> Self {
        let token = AccessToken::new(world.token.as_str()).unwrap();
        let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), Some(token));
        change(&mut config);
        let stop = CancellationToken::new();
        let server = serve(world.host.clone(), config, stop.clone())
            .await
            .unwrap();
        Self {
            address: server.address(),
            server,
            stop,
        }
    }

    pub(crate) async fn client(&self, token: &str, protocol: WireProtocol) -> Client {
        Client::connect_with(&format!("http://{}", self.address), Some(token), protocol)
            .await
            .unwrap()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.server.finished().await.unwrap();
    }
}

#[test]
fn concurrency_limit_applies_per_token_until_calls_end() {
    World::run(async |world| {
        let id = world
            .session(&world.client(WireProtocol::Connect).await)
            .await
            .id;
        let agent = world.token("agent", &[&format!("session:{id}")]).await;
        let server = Bounded::start(world, |config| config.max_calls_per_token = 2).await;
        for protocol in PROTOCOLS {
            let client = server.client(&agent, protocol).await;
            let waits = ExecSpec {
                stdin: StdinMode::Piped,
                ..shell("read line; echo bye")
            };
            let mut first = client.exec(&id, waits).await.unwrap();
            let process = client.exec(&id, shell("exec sleep 1000")).await.unwrap();
            let error = client.get_session(&id).await.unwrap_err();
            assert_eq!(
                error.code(),
                ErrorCode::TooManyCalls,
                "{protocol:?}: {error:?}"
            );
            assert!(
                error.hint().unwrap().contains("max_calls_per_token"),
                "{error:?}"
            );
            let error = client.exec(&id, shell("true")).await.unwrap_err();
            assert_eq!(
                error.code(),
                ErrorCode::TooManyCalls,
                "{protocol:?}: {error:?}"
            );
            // Another token has a limit of its own.
            server
                .client(&world.token, protocol)
                .await
                .get_session(&id)
                .await
                .unwrap();
            first.stdin().unwrap().close().await.unwrap();
            while let Some(event) = first.next_event().await.unwrap() {
                assert!(matches!(event, ExecEvent::Stdout(_) | ExecEvent::Exited(_)));
            }
            drop(first);
            drop(process);
            // The permit of a caller that disconnects is released asynchronously.
            let mut answer = client.get_session(&id).await;
            while answer
                .as_ref()
                .is_err_and(|error| error.code() == ErrorCode::TooManyCalls)
            {
                tokio::task::yield_now().await;
                answer = client.get_session(&id).await;
            }
            answer.unwrap();
        }
        server.stop().await;
    });
}

#[test]
fn request_timeout_ends_unary_calls_only() {
    World::run(async |world| {
        let id = world
            .session(&world.client(WireProtocol::Connect).await)
            .await
            .id;
        let server = Bounded::start(world, |config| {
            config.request_timeout = Duration::from_millis(200);
        })
        .await;
        // A request whose body never completes.
        for (kind, deadline) in [
            ("application/json", None),
            ("application/json", Some(("connect-timeout-ms", "50"))),
        ] {
            let mut request = Request::post("/sandbar.v1.SandboxService/ListBases")
                .header("host", "localhost")
                .header("content-type", kind)
                .header("content-length", "100")
                .header("authorization", format!("Bearer {}", world.token));
            if let Some((name, value)) = deadline {
                request = request.header(name, value);
            }
            let (_open, body) = pieces();
            let stream = TcpStream::connect(server.address).await.unwrap();
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream))
                    .await
                    .unwrap();
            tokio::spawn(connection);
            let answer = sender
                .send_request(request.body(body).unwrap())
                .await
                .unwrap();
            assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT, "{deadline:?}");
            let error: Value =
                serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes())
                    .unwrap();
            assert_eq!(error["code"], "deadline_exceeded", "{deadline:?}");
            if deadline.is_none() {
                let detail = &error["details"][0]["debug"];
                assert_eq!(detail["code"], "Timeout");
                assert!(
                    detail["hint"].as_str().unwrap().contains("request_timeout"),
                    "{error}"
                );
            }
        }
        // Calls that wait for a session, and streams, have no default deadline.
        for protocol in PROTOCOLS {
            let client = server.client(&world.token, protocol).await;
            let spec = ProcessSpec::new(["/bin/sh", "-c", "sleep 0.5; echo done"]);
            // Not through the server with the short timeout, which a busy machine may exceed.
            let process = world.host.launch_process(&id, spec).await.unwrap().id;
            let follow = LogQuery {
                follow: true,
                ..LogQuery::default()
            };
            let mut logs = client.process_logs(&id, &process, follow).await.unwrap();
            client
                .wait_process(&id, &process, WaitFor::Exited)
                .await
                .unwrap();
            assert_eq!(logs.next().await.unwrap().unwrap().bytes, "done\n");
        }
        server.stop().await;
    });
}

#[test]
fn caller_deadline_ends_the_work() {
    World::run(async |world| {
        let client = world.client(WireProtocol::Connect).await;
        let id = world.session(&client).await.id;
        // A stream that has begun to respond when the deadline passes.
        let start = json!({"start": {"sessionId": id.as_str(), "argv": ["/bin/sleep", "1000"]}});
        let mut request = world.request("Exec", "application/connect+json", frames(&[start]));
        request
            .headers_mut()
            .insert("connect-timeout-ms", "2000".parse().unwrap());
        let mut answer = exchange(world.address, request).await;
        let first = answer
            .response
            .body_mut()
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap();
        let started: Value = serde_json::from_slice(&first[5..]).unwrap();
        let process =
            Watched::new(u32::try_from(started["started"]["pid"].as_u64().unwrap()).unwrap());
        let rest = answer
            .response
            .body_mut()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        assert_eq!(unframe(&rest)[0]["error"]["code"], "deadline_exceeded");
        process.has_died().await;

        // A unary call without another limit.
        let process = client
            .launch_process(&id, ProcessSpec::new(["/bin/sleep", "1000"]))
            .await
            .unwrap();
        let wait = json!({"sessionId": id.as_str(), "processId": process.id.as_str(), "waitFor": "WAIT_FOR_EXITED"});
        let mut request = world.request("WaitProcess", "application/json", wait.to_string());
        request
            .headers_mut()
            .insert("connect-timeout-ms", "100".parse().unwrap());
        let answer = send(world.address, request).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (StatusCode::GATEWAY_TIMEOUT, &json!("deadline_exceeded"))
        );

        // A tool ends with the deadline of the last caller that waits for it.
        let params = json!({"cmd": "sleep 1000"});
        let tool = json!({"sessionId": id.as_str(), "toolName": "bash", "toolCallId": "1", "params": params});
        let mut request = world.request("ExecuteTool", "application/json", tool.to_string());
        request
            .headers_mut()
            .insert("connect-timeout-ms", "300".parse().unwrap());
        let answer = send(world.address, request).await;
        assert_eq!(
            answer.json()["code"],
            "deadline_exceeded",
            "{:?}",
            answer.body
        );
    });
}
