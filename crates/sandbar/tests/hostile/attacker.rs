//! An attacker: a session, a token of its scope, and code in its box.

use std::{
    future::Future,
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use sandbar_client::{Client, RemoteCommand};
use sandbar_core::{
    Error, ErrorCode, ExecEvent, ExecSpec, Resources, Result, SessionId, ToolCallId, ToolRequest,
    ToolResponse,
};
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    http::{self, Answer},
    internet::Ports,
    measure::print,
    probe,
};

/// Time in which every call must have an answer or an error.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);
/// Timeout of programs in the box.
const PROGRAM_TIMEOUT: Duration = Duration::from_mins(1);
/// Output of a program that is kept.
const MAX_OUTPUT: usize = 1 << 20;

/// Credentials and connections of an attacker.
#[derive(Debug)]
pub(crate) struct Attacker {
    pub(crate) id: SessionId,
    pub(crate) client: Client,
    pub(crate) token: String,
    pub(crate) address: SocketAddr,
    /// File of the host that nothing of the attacker may write.
    pub(crate) target: PathBuf,
    /// Servers that the box may dial.
    pub(crate) ports: Option<Ports>,
    pub(crate) rounds: watch::Receiver<usize>,
    pub(crate) calls: AtomicU64,
}

/// End of a program in the box.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
}

impl Attacker {
    /// Goes on until the probe has made this number of rounds under the attack.
    pub(crate) async fn hold(&self, rounds: usize) {
        let outcome = probe::wait_for(&self.rounds, rounds).await;
        assert_eq!(outcome, Ok(()));
    }

    /// Starts a program in the box.
    pub(crate) async fn start(&self, argv: &[&str]) -> Result<RemoteCommand> {
        let spec = ExecSpec {
            resources: Resources {
                wall_time: Some(PROGRAM_TIMEOUT),
                ..Resources::default()
            },
            ..ExecSpec::new(argv.iter().copied())
        };
        answered("exec", self.client.exec(&self.id, spec)).await
    }

    /// Starts a Python program and waits until it has written `ready`.
    pub(crate) async fn started(&self, script: &str) -> RemoteCommand {
        let mut command = self.start(&["python3", "-c", script]).await.unwrap();
        let mut output = Vec::new();
        while !output.windows(5).any(|bytes| bytes == b"ready") {
            match answered("output", command.next_event()).await.unwrap() {
                Some(ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes)) => output.extend(bytes),
                // The memory of the box was not enough for the attack.
                Some(ExecEvent::Exited(status)) if status.oom_killed => break,
                other => panic!(
                    "the program ended with {other:?}: {}",
                    String::from_utf8_lossy(&output)
                ),
            }
        }
        command
    }

    /// Runs a program in the box to its end.
    pub(crate) async fn run(&self, argv: &[&str]) -> Result<Said> {
        finish(self.start(argv).await?).await
    }

    /// Runs a Python program that may end as it likes, with its box or its connection.
    pub(crate) async fn python(&self, script: &str) -> Option<Said> {
        self.run(&["python3", "-c", script]).await.ok()
    }

    /// Runs a Python program that prepares an attack, and must succeed.
    pub(crate) async fn prepare(&self, script: &str) {
        let said = self.run(&["python3", "-c", script]).await.unwrap();
        assert_eq!(said.code, Some(0), "preparation: {}", said.output);
    }

    /// Returns a tool call with an id of its own.
    pub(crate) fn request(&self, tool: &str, params: &Value) -> ToolRequest {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        tool_request(tool, &format!("call-{number}"), params)
    }

    /// Calls a tool.
    pub(crate) async fn tool(&self, tool: &str, params: Value) -> Result<ToolResponse> {
        let request = self.request(tool, &params);
        let answer = answered(tool, self.client.execute_tool(&self.id, &request)).await;
        if let Ok(answer) = &answer {
            show(tool, &answer.content);
        }
        answer
    }

    /// Sends a request with the token as a bearer.
    pub(crate) async fn http(&self, method: &str, target: &str, body: &[u8]) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        http::request(self.address, method, target, &headers, body).await
    }

    /// Returns the head of a Connect stream with JSON messages over HTTP/1.1.
    pub(crate) fn stream(&self, call: &str, message: &Value) -> Vec<u8> {
        let bearer = format!("Bearer {}", self.token);
        let body = http::frame(message);
        let length = body.len().to_string();
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/connect+json"),
            ("connect-protocol-version", "1"),
            ("connection", "close"),
            ("content-length", length.as_str()),
        ];
        let target = format!("/sandbar.v1.SandboxService/{call}");
        [http::head("POST", &target, &headers).into_bytes(), body].concat()
    }

    /// Returns the key of the E2B API.
    pub(crate) fn api_key(&self) -> String {
        sandbar_e2b::api_key(&self.token)
    }

    /// Sends a request of an E2B SDK to the sandbox.
    pub(crate) async fn e2b(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let key = self.api_key();
        let mut all = vec![
            ("x-api-key", key.as_str()),
            ("e2b-sandbox-id", self.id.as_str()),
            ("e2b-sandbox-port", "49983"),
        ];
        all.extend(headers);
        http::request(self.address, method, target, &all, body).await
    }

    /// Makes a unary call of envd.
    pub(crate) async fn envd(&self, call: &str, message: &Value) -> Answer {
        let headers = [
            ("content-type", "application/json"),
            ("connect-protocol-version", "1"),
        ];
        let target = format!("/{call}");
        self.e2b("POST", &target, &headers, message.to_string().as_bytes())
            .await
    }

    /// Returns the request of a stream of envd.
    pub(crate) fn envd_stream(&self, call: &str, message: &Value) -> Vec<u8> {
        let (key, body) = (self.api_key(), http::frame(message));
        let length = body.len().to_string();
        let headers = [
            ("x-api-key", key.as_str()),
            ("e2b-sandbox-id", self.id.as_str()),
            ("e2b-sandbox-port", "49983"),
            ("content-type", "application/connect+json"),
            ("connect-protocol-version", "1"),
            ("connection", "close"),
            ("content-length", length.as_str()),
        ];
        [
            http::head("POST", &format!("/{call}"), &headers).into_bytes(),
            body,
        ]
        .concat()
    }
}

/// Returns a tool call.
pub(crate) fn tool_request(tool: &str, call: &str, params: &Value) -> ToolRequest {
    ToolRequest {
        tool: tool.to_owned(),
        call: ToolCallId::new(call).unwrap(),
        params: params.as_object().cloned().unwrap_or_default(),
        resources: Resources::default(),
    }
}

/// Reads a command to its end.
pub(crate) async fn finish(mut command: RemoteCommand) -> Result<Said> {
    let mut said = Said {
        code: None,
        output: String::new(),
    };
    while let Some(event) = answered("output", command.next_event()).await? {
        match event {
            ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) => {
                if said.output.len() < MAX_OUTPUT {
                    said.output.push_str(&String::from_utf8_lossy(&bytes));
                }
            }
            ExecEvent::Exited(status) => said.code = status.code,
        }
    }
    Ok(said)
}

/// Waits for the end of a call: an answer or a documented error, in time.
pub(crate) async fn answered<T>(what: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
    let Ok(outcome) = timeout(CALL_TIMEOUT, call).await else {
        panic!("{what} did not end in {CALL_TIMEOUT:?}");
    };
    if let Err(error) = &outcome {
        show(what, &error.chain());
        assert_documented(what, error);
    }
    outcome
}

/// Prints the beginning of an answer if `SANDBAR_HOSTILE_ANSWERS` is set.
pub(crate) fn show(what: &str, answer: &str) {
    if std::env::var_os("SANDBAR_HOSTILE_ANSWERS").is_some() {
        print(&format!(
            "  {what}: {}",
            format!("{answer:.200}").escape_debug()
        ));
    }
}

/// Checks that an error is not about the host itself.
#[track_caller]
pub(crate) fn assert_documented(what: &str, error: &Error) {
    assert!(
        error.code() != ErrorCode::Internal,
        "{what} failed inside of the host: {}",
        error.chain()
    );
}

/// Makes calls, at most `at_once` at a time; returns the outcomes.
pub(crate) async fn flood<T, F>(
    what: &'static str,
    count: usize,
    at_once: usize,
    call: impl Fn(usize) -> F,
) -> Vec<Result<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut outcomes = Vec::new();
    for number in 0..count {
        if running.len() >= at_once {
            outcomes.push(running.join_next().await.unwrap().unwrap());
        }
        let call = call(number);
        running.spawn(async move { answered(what, call).await });
    }
    outcomes.extend(running.join_all().await);
    outcomes
}

/// Checks that an answer is no failure of the host.
#[track_caller]
pub(crate) fn assert_no_fault(what: &str, answer: &Answer) {
    show(what, &format!("{} {}", answer.status, answer.text.len()));
    assert!(
        answer.status != 500,
        "{what} failed inside of the host: {:.400}",
        answer.text
    );
}
