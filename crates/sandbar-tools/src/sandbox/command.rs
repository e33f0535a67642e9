//! Execution of a command in the sandbox.

use std::time::Duration;

use bytes::Bytes;
use sandbar_core::{
    Error, ErrorCode, ExecEvent, ExecSpec, ExitStatus, Result, StdinMode, ToolProgress,
};
use sandbar_runtime::{RunningCommand, StdinHandle};

use crate::{
    ToolContext,
    context::cancelled,
    outcome::Outcome,
    text::{Transcript, Utf8Stream},
};

/// Longest argument the kernel accepts (`MAX_ARG_STRLEN` without the final NUL).
pub(super) const MAX_ARGUMENT_BYTES: usize = (128 << 10) - 1;

/// Bytes of input written at a time.
const PIECE: usize = 64 << 10;

/// Exit code of a command that timed out, as `timeout(1)` reports it.
const TIMEOUT_EXIT_CODE: i32 = 124;

/// Command to run, with its time limit.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) spec: ExecSpec,
    pub(super) input: Option<Bytes>,
    pub(super) time: Duration,
}

impl Task {
    /// Creates a command with the time limit `time`, or that of the call.
    pub(super) fn new(context: &ToolContext, argv: Vec<String>, time: Option<Duration>) -> Self {
        let time = context.wall_time(time);
        let mut spec = ExecSpec {
            argv,
            resources: context.resources.clone(),
            ..ExecSpec::default()
        };
        spec.resources.wall_time = Some(time);
        Self {
            spec,
            input: None,
            time,
        }
    }

    /// Sets the standard input.
    pub(super) fn with_input(mut self, input: Bytes) -> Self {
        self.spec.stdin = StdinMode::Piped;
        self.input = Some(input);
        self
    }

    /// Starts the command; `None` when the sandbox does not have the program.
    pub(super) async fn start(self, context: &ToolContext) -> Result<Option<Started<'_>>> {
        let Self { spec, input, time } = self;
        match context.runner.start(spec).await {
            Ok(command) => Ok(Some(Started {
                context,
                command,
                input,
                time,
            })),
            Err(error)
                if error.code() == ErrorCode::FileNotFound && error.field() == Some("argv") =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Running command. Dropping it kills it with all its children.
#[derive(Debug)]
pub(super) struct Started<'a> {
    context: &'a ToolContext,
    command: RunningCommand,
    input: Option<Bytes>,
    time: Duration,
}

impl Started<'_> {
    /// Forwards output as progress until the command ends, and returns the outcome.
    pub(super) async fn finish(mut self) -> Result<Outcome> {
        let context = self.context;
        let feeding = feed(self.command.stdin(), self.input.take());
        let listening = listen(context, &mut self.command);
        tokio::select! {
            biased;
            () = context.cancelled.cancelled() => Err(cancelled()),
            (listened, ()) = futures::future::join(listening, feeding) => {
                let (transcript, status) = listened?;
                Ok(outcome(transcript, &status, self.time))
            }
        }
    }
}

/// Forwards output as it arrives, and keeps the part that belongs in the answer.
async fn listen(
    context: &ToolContext,
    command: &mut RunningCommand,
) -> Result<(Transcript, ExitStatus)> {
    let mut transcript = Transcript::default();
    let mut streams = [Utf8Stream::default(), Utf8Stream::default()];
    loop {
        let Some(event) = command.next_event().await else {
            return Err(Error::internal("command ended without an exit status"));
        };
        let (stream, bytes) = match event {
            ExecEvent::Stdout(bytes) => (0, bytes),
            ExecEvent::Stderr(bytes) => (1, bytes),
            ExecEvent::Exited(status) => {
                for (number, stream) in streams.iter_mut().enumerate() {
                    tell(context, &mut transcript, stream.finish(), number == 1).await;
                }
                return Ok((transcript, status));
            }
        };
        let text = streams[stream].push(&bytes);
        tell(context, &mut transcript, text, stream == 1).await;
    }
}

async fn tell(context: &ToolContext, transcript: &mut Transcript, said: String, is_error: bool) {
    if said.is_empty() {
        return;
    }
    transcript.push(&said);
    // A caller that does not read progress still gets the answer.
    let _ = context
        .progress
        .send(ToolProgress {
            content: said,
            is_error,
        })
        .await;
}

/// Writes the input, as far as the command reads it.
async fn feed(stdin: Option<StdinHandle>, input: Option<Bytes>) {
    let (Some(stdin), Some(mut input)) = (stdin, input) else {
        return;
    };
    while !input.is_empty() {
        let piece = input.split_to(input.len().min(PIECE));
        if stdin.write(piece).await.is_err() {
            break;
        }
    }
    stdin.close();
}

fn outcome(transcript: Transcript, status: &ExitStatus, time: Duration) -> Outcome {
    let nothing_said = transcript.is_empty();
    let (mut content, cut) = transcript.finish();
    let exit_code = match status {
        ExitStatus {
            timed_out: true, ..
        } => Some(TIMEOUT_EXIT_CODE),
        ExitStatus {
            code: Some(code), ..
        } => Some(*code),
        ExitStatus { signal, .. } => signal.map(|signal| 128 + signal),
    };
    let mut notes = Vec::new();
    if status.timed_out {
        notes.push(format!("stopped after {time:?}: its time was up"));
    } else if status.oom_killed {
        notes.push("the kernel has killed it, or a part of it: it ran out of memory".to_owned());
    } else if let Some(signal) = status.signal {
        notes.push(format!("ended by signal {signal}"));
    } else if let (true, Some(code @ 1..)) = (nothing_said, exit_code) {
        notes.push(format!("exit code {code}, and no output"));
    }
    if status.truncated {
        notes.push("output beyond the limit was dropped".to_owned());
    }
    for note in notes {
        if !content.is_empty() && !content.ends_with('\n') {
            content.push('\n');
        }
        content.extend(["[", &note, "]"]);
    }
    Outcome {
        content,
        exit_code,
        is_error: exit_code != Some(0) || status.oom_killed,
        timed_out: status.timed_out,
        oom_killed: status.oom_killed,
        truncated: status.truncated || cut,
        ..Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, status: ExitStatus) -> Outcome {
        let mut transcript = Transcript::default();
        transcript.push(text);
        outcome(transcript, &status, Duration::from_secs(2))
    }

    #[test]
    fn an_exit_status_is_reported_in_fields_and_text() {
        let good = of(
            "fine\n",
            ExitStatus {
                code: Some(0),
                ..ExitStatus::default()
            },
        );
        assert_eq!(
            (good.content.as_str(), good.exit_code, good.is_error),
            ("fine\n", Some(0), false)
        );
        let bad = of(
            "",
            ExitStatus {
                code: Some(3),
                ..ExitStatus::default()
            },
        );
        assert_eq!(
            (bad.content.as_str(), bad.exit_code, bad.is_error),
            ("[exit code 3, and no output]", Some(3), true)
        );
        let late = of(
            "a",
            ExitStatus {
                signal: Some(9),
                timed_out: true,
                ..ExitStatus::default()
            },
        );
        assert_eq!(
            (late.content.as_str(), late.exit_code),
            ("a\n[stopped after 2s: its time was up]", Some(124))
        );
        assert!(late.timed_out && late.is_error);
        let killed = of(
            "",
            ExitStatus {
                signal: Some(11),
                ..ExitStatus::default()
            },
        );
        assert_eq!(
            (killed.content.as_str(), killed.exit_code),
            ("[ended by signal 11]", Some(139))
        );
        let hungry = of(
            "",
            ExitStatus {
                code: Some(0),
                oom_killed: true,
                ..ExitStatus::default()
            },
        );
        assert!(hungry.is_error && hungry.oom_killed);
        assert!(
            of(
                "",
                ExitStatus {
                    code: Some(0),
                    truncated: true,
                    ..ExitStatus::default()
                }
            )
            .truncated
        );
    }
}
