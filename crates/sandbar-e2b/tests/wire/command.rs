//! A command as an SDK drives it.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::client::{Answer, Frame, Frames, Sandbox};

/// A command with a connected client.
pub(crate) struct Command {
    pub(crate) pid: u64,
    pub(crate) events: Frames,
}

/// Output and exit of a command.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) pty: Vec<u8>,
    pub(crate) keepalives: usize,
    /// Largest chunk in one event.
    pub(crate) largest: usize,
    /// The end event.
    pub(crate) end: Option<Value>,
}

impl Output {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Exit code; JSON omits zero.
    pub(crate) fn code(&self) -> i64 {
        self.end.as_ref().unwrap()["exitCode"].as_i64().unwrap_or(0)
    }

    /// Adds the event in one frame.
    fn take(&mut self, message: &Value) {
        let event = &message["event"];
        let bytes = |name: &str| {
            Some(
                BASE64_STANDARD
                    .decode(event["data"][name].as_str()?)
                    .unwrap(),
            )
        };
        for (name, kept) in [
            ("stdout", &mut self.stdout),
            ("stderr", &mut self.stderr),
            ("pty", &mut self.pty),
        ] {
            let piece = bytes(name).unwrap_or_default();
            self.largest = self.largest.max(piece.len());
            kept.extend(piece);
        }
        self.keepalives += usize::from(event["keepalive"].is_object());
        if event["end"].is_object() {
            self.end = Some(event["end"].clone());
        }
    }
}

impl Command {
    async fn of(mut events: Frames) -> Result<Self, Value> {
        match events.next().await {
            Frame::Message(first) => Ok(Self {
                pid: first["event"]["start"]["pid"].as_u64().unwrap(),
                events,
            }),
            Frame::End(end) => Err(end["error"].clone()),
            Frame::Torn => panic!("torn before it began"),
        }
    }

    /// Reads all events and the last frame.
    pub(crate) async fn rest(&mut self) -> (Output, Frame) {
        let mut output = Output::default();
        loop {
            match self.events.next().await {
                Frame::Message(message) => output.take(&message),
                end => return (output, end),
            }
        }
    }

    /// Reads until `text` was written to any stream.
    pub(crate) async fn until(&mut self, text: &str) -> Output {
        let mut output = Output::default();
        loop {
            let all = [&output.stdout[..], &output.stderr, &output.pty].concat();
            if String::from_utf8_lossy(&all).contains(text) {
                return output;
            }
            match self.events.next().await {
                Frame::Message(message) => output.take(&message),
                end => panic!("{end:?} after {output:?}"),
            }
        }
    }

    /// Reads all events; the command has to succeed.
    pub(crate) async fn wait(mut self) -> Output {
        let (output, end) = self.rest().await;
        assert_eq!(end, Frame::End(json!({})), "{output:?}");
        output
    }
}

/// Start request for a shell command, as SDKs send it.
pub(crate) fn shell(command: &str) -> Value {
    json!({ "process": { "cmd": "/bin/bash", "args": ["-l", "-c", command] }, "stdin": false })
}

/// Start request for a command that reads stdin.
pub(crate) fn typed_to(command: &str) -> Value {
    let mut request = shell(command);
    request["stdin"] = true.into();
    request
}

impl Sandbox {
    pub(crate) async fn try_start(
        &self,
        request: &Value,
        headers: &[(&str, &str)],
    ) -> Result<Command, Value> {
        Command::of(self.stream("process.Process/Start", request, headers).await).await
    }

    pub(crate) async fn start(&self, request: &Value) -> Command {
        self.try_start(request, &[]).await.unwrap()
    }

    /// Returns why a command is refused.
    pub(crate) async fn refusal(&self, request: &Value) -> Value {
        self.try_start(request, &[]).await.err().unwrap()
    }

    /// Runs a shell command to its end.
    pub(crate) async fn bash(&self, command: &str) -> Output {
        self.start(&shell(command)).await.wait().await
    }

    pub(crate) async fn connect(
        &self,
        pid: u64,
        headers: &[(&str, &str)],
    ) -> Result<Command, Value> {
        let request = json!({ "process": { "pid": pid } });
        Command::of(
            self.stream("process.Process/Connect", &request, headers)
                .await,
        )
        .await
    }

    pub(crate) async fn send(&self, pid: u64, kind: &str, text: &str) -> Answer {
        let request =
            json!({ "process": { "pid": pid }, "input": { kind: BASE64_STANDARD.encode(text) } });
        self.call("process.Process/SendInput", &request).await
    }

    pub(crate) async fn close_stdin(&self, pid: u64) -> Answer {
        self.call(
            "process.Process/CloseStdin",
            &json!({ "process": { "pid": pid } }),
        )
        .await
    }

    pub(crate) async fn signal(&self, pid: u64, signal: &str) -> Answer {
        let request = json!({ "process": { "pid": pid }, "signal": signal });
        self.call("process.Process/SendSignal", &request).await
    }

    /// Returns the running commands.
    pub(crate) async fn commands(&self) -> Vec<Value> {
        let listed = self.call("process.Process/List", &json!({})).await.json();
        listed["processes"].as_array().cloned().unwrap_or_default()
    }
}
