//! `launch`, `logs` and `expose_port`.

use std::{collections::BTreeMap, time::Duration};

use sandbar_core::{
    Error, LogQuery, LogStream, ProcessId, ProcessInfo, ProcessSpec, Readiness, RestartPolicy,
    Result, SessionId, WaitFor,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    answer::Answer,
    call::Call,
    definition::{Definition, WorksIn, object},
    hints::Hints,
};

/// Default number of log lines of each stream.
const DEFAULT_LINES: u64 = 200;

/// Limit on bytes of logs in a result. The beginning is cut off.
const MAX_LOG_BYTES: usize = 30_000;

/// Limit on restarts with `on-failure`.
const MAX_RESTARTS: u32 = 10;

pub(crate) fn define_launch() -> Definition {
    Definition {
        name: "launch".into(),
        description: "Starts a long-running process in the background: a server, a watcher, a database. It keeps running after \
                      this call. With `port` it is reachable from outside at the URL in the result. With `ready` the call \
                      waits until the process is ready, and fails with its last output if it does not become ready in time."
            .into(),
        hints: Some(Hints::may_destroy("Launch a process").reaching_out()),
        input: object(
            json!({
                "argv": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "Program and arguments, run without a shell."},
                "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables, in addition to those of the sandbox."},
                "cwd": {"type": "string", "description": "Working directory. Default: /workspace."},
                "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "TCP port that the process listens on, to be reachable from outside."},
                "ready": {"type": "string", "enum": ["none", "tcp", "http", "log"], "default": "none", "description": "Condition for readiness: none (ready at once), tcp (accepts connections on `port`), http (answers GET `ready_path` on `port`), log (has written `ready_text`)."},
                "ready_path": {"type": "string", "default": "/", "description": "URL path for ready = http."},
                "ready_text": {"type": "string", "description": "Text in a line of output, for ready = log."},
                "ready_timeout_seconds": {"type": "integer", "minimum": 1, "default": 30, "description": "Time limit for becoming ready."},
                "restart": {"type": "string", "enum": ["no", "on-failure", "always"], "default": "no", "description": "When to restart the process after it has exited."},
            }),
            &["argv"],
        ),
        output: Some(process_schema()),
        works_in: WorksIn::Sandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Launch {
    argv: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    port: Option<u16>,
    #[serde(default)]
    ready: Ready,
    ready_path: Option<String>,
    ready_text: Option<String>,
    ready_timeout_seconds: Option<u64>,
    #[serde(default)]
    restart: Restart,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Ready {
    #[default]
    None,
    Tcp,
    Http,
    Log,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Restart {
    #[default]
    No,
    OnFailure,
    Always,
}

impl Launch {
    fn into_spec(self) -> ProcessSpec {
        let defaults = ProcessSpec::new(self.argv);
        ProcessSpec {
            env: self.env,
            cwd: self.cwd,
            expose_port: self.port,
            ready: match self.ready {
                Ready::None => Readiness::None,
                Ready::Tcp => Readiness::Tcp { port: None },
                Ready::Http => Readiness::Http {
                    port: None,
                    path: self.ready_path.unwrap_or_else(|| "/".into()),
                },
                Ready::Log => Readiness::Log {
                    text: self.ready_text.unwrap_or_default(),
                },
            },
            ready_timeout: self
                .ready_timeout_seconds
                .map_or(defaults.ready_timeout, Duration::from_secs),
            restart: match self.restart {
                Restart::No => RestartPolicy::Never,
                Restart::OnFailure => RestartPolicy::OnFailure {
                    at_most: MAX_RESTARTS,
                },
                Restart::Always => RestartPolicy::Always,
            },
            ..defaults
        }
    }
}

pub(crate) async fn launch(mut call: Call<'_>) -> Result<Answer> {
    let asked = call.asked_sandbox()?;
    let launch: Launch = call.read()?;
    let waits = launch.ready != Ready::None;
    let id = call.default.resolve(call.client, asked).await?;
    let mut process = call.client.launch_process(&id, launch.into_spec()).await?;
    if waits {
        process = call
            .client
            .wait_process(&id, &process.id, WaitFor::Ready)
            .await?;
    }
    let mut shown = show(&process);
    if let Some(port) = process.port {
        shown["reached_at"] = reached_at(&call, &id, port).await?;
    }
    Ok(Answer::structured(shown))
}

pub(crate) fn define_logs() -> Definition {
    Definition {
        name: "logs".into(),
        description:
            "Shows the last lines of output of a launched process, also after it has exited. Without `process`, lists \
                      the processes of the sandbox and their status."
                .into(),
        hints: Some(Hints::reads("Show the logs of a process")),
        input: object(
            json!({
                "process": {"type": "string", "description": "Id of the process, from launch."},
                "tail": {"type": "integer", "minimum": 1, "default": DEFAULT_LINES, "description": "Number of lines from the end of each stream."},
                "stream": {"type": "string", "enum": ["stdout", "stderr"], "description": "Stream to show. Default: both."},
            }),
            &[],
        ),
        output: None,
        works_in: WorksIn::Sandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Logs {
    process: Option<ProcessId>,
    tail: Option<u64>,
    stream: Option<LogStream>,
}

pub(crate) async fn logs(mut call: Call<'_>) -> Result<Answer> {
    let asked = call.asked_sandbox()?;
    let Logs {
        process,
        tail,
        stream,
    } = call.read()?;
    let id = call.default.resolve(call.client, asked).await?;
    let Some(process) = process else {
        let processes = call.client.list_processes(&id).await?;
        let listed: Vec<Value> = processes.iter().map(show).collect();
        return Ok(Answer::text(json!({"processes": listed}).to_string()));
    };
    let query = LogQuery {
        stream,
        follow: false,
        tail: Some(tail.unwrap_or(DEFAULT_LINES)),
    };
    let mut chunks = call.client.process_logs(&id, &process, query).await?;
    let mut bytes = Vec::new();
    let mut cut = false;
    while let Some(chunk) = chunks.next().await? {
        cut |= chunk.missed > 0;
        bytes.extend_from_slice(&chunk.bytes);
        if bytes.len() > 2 * MAX_LOG_BYTES {
            bytes.drain(..bytes.len() - MAX_LOG_BYTES);
            cut = true;
        }
    }
    if bytes.len() > MAX_LOG_BYTES {
        bytes.drain(..bytes.len() - MAX_LOG_BYTES);
        cut = true;
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Answer::text(match (text.is_empty(), cut) {
        (true, _) => "[no output]".to_owned(),
        (false, true) => format!("[earlier output omitted]\n{text}"),
        (false, false) => text.into_owned(),
    }))
}

pub(crate) fn define_expose_port() -> Definition {
    Definition {
        name: "expose_port".into(),
        description: "Returns the URL at which a TCP port of the sandbox is reachable from outside, and the headers that \
                      requests need. Ports are private: requests without the token in the headers are rejected, unless the \
                      network policy of the sandbox makes its ports public."
            .into(),
        hints: Some(Hints::reads("Reach a port of a sandbox")),
        input: object(
            json!({
                "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "TCP port that a process in the sandbox listens on."},
            }),
            &["port"],
        ),
        output: Some(object(
            json!({
                "sandbox": {"type": "string"},
                "port": {"type": "integer"},
                "reached_at": reached_schema(),
            }),
            &["sandbox", "port", "reached_at"],
        )),
        works_in: WorksIn::Sandbox,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExposePort {
    port: u16,
}

pub(crate) async fn expose_port(mut call: Call<'_>) -> Result<Answer> {
    let asked = call.asked_sandbox()?;
    let ExposePort { port } = call.read()?;
    if port == 0 {
        return Err(Error::invalid("port", "port is 0").with_hint("use a port between 1 and 65535"));
    }
    let id = call.default.resolve(call.client, asked).await?;
    let reached_at = reached_at(&call, &id, port).await?;
    Ok(Answer::structured(
        json!({"sandbox": id, "port": port, "reached_at": reached_at}),
    ))
}

/// Returns URL and headers of a port.
async fn reached_at(call: &Call<'_>, id: &SessionId, port: u16) -> Result<Value> {
    let network = call.client.get_network(id).await?;
    let address = call.ports.address(id, port);
    let mut headers: BTreeMap<&str, String> = address.headers.into_iter().collect();
    let public = network.policy.allow_public_ingress;
    // The host returns no traffic token to callers with read access only.
    if let Some(token) = network.traffic_token.filter(|_| !public) {
        headers.insert("x-sandbar-traffic-token", token.expose().to_owned());
    }
    Ok(json!({"url": address.url, "headers": headers, "public": public}))
}

fn reached_schema() -> Value {
    object(
        json!({
            "url": {"type": "string"},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Headers to send with every request."},
            "public": {"type": "boolean", "description": "Whether requests need no token."},
        }),
        &["url", "headers", "public"],
    )
}

/// Returns a process in the form of the schema.
fn show(process: &ProcessInfo) -> Value {
    let mut shown = json!({
        "process": process.id,
        "sandbox": process.session,
        "argv": process.argv,
        "status": process.status,
        "restarts": process.restarts,
    });
    if let Some(port) = process.port {
        shown["port"] = port.into();
    }
    if let Some(address) = &process.address {
        shown["address"] = address.as_str().into();
    }
    if let Some(exit) = &process.exit {
        shown["ended"] = exit.to_string().into();
    }
    shown
}

fn process_schema() -> Value {
    object(
        json!({
            "process": {"type": "string", "description": "Id of the process."},
            "sandbox": {"type": "string"},
            "argv": {"type": "array", "items": {"type": "string"}},
            "status": {"type": "string", "enum": ["starting", "running", "exited"]},
            "restarts": {"type": "integer"},
            "port": {"type": "integer"},
            "address": {"type": "string", "description": "Address of the port on the host machine."},
            "ended": {"type": "string", "description": "Exit status of the last run."},
            "reached_at": reached_schema(),
        }),
        &["process", "sandbox", "argv", "status", "restarts"],
    )
}
