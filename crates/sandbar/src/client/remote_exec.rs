//! Runs a remote command to its end: forwards stdin, signals and terminal sizes to it, and its
//! output to our stdout and stderr.

use std::{
    future::Future,
    io::{self, IsTerminal},
    process::ExitCode,
};

use bytes::Bytes;
use sandbar_client::{Client, RemoteCommand, RemoteControl, RemoteStdin};
use sandbar_core::{
    ByteCount, Error, ErrorCode, ExecEvent, ExecSpec, ExitStatus, Result as CoreResult, SessionId,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    failure::{Failure, Outcome, exit},
    terminal::{
        Input, Interrupts, Sizes, Terminal,
        output::{self, pass_on},
    },
};

/// Output limit of commands whose output is streamed: nothing is buffered, so nothing is dropped.
pub(crate) const UNBOUNDED_OUTPUT: ByteCount = ByteCount(1 << 60);

/// Runs a command to its end and returns its exit code. With a terminal, the command gets a
/// pseudo-terminal of the same size and type, and ours is in raw mode meanwhile.
pub(crate) async fn run_command(
    client: &Client,
    id: &SessionId,
    mut spec: ExecSpec,
    terminal: Option<&Terminal>,
    interrupts: &mut Interrupts,
) -> Outcome<ExitCode> {
    // Before the size is read, so that no later change is missed.
    let sizes = terminal.map(Terminal::sizes).transpose()?;
    if let Some(terminal) = terminal {
        terminal.describe(&mut spec);
    }
    let mut command = tokio::select! {
        started = Box::pin(client.exec(id, spec)) => started.map_err(not_started)?,
        signal = interrupts.next() => return Ok(ExitCode::from(exit::signalled(signal))),
    };
    let control = command.control();
    let _resizer = sizes.map(|sizes| spawn_aborting(forward_sizes(sizes, control.clone())));
    let _feeder = command
        .stdin()
        .map(|stdin| spawn_aborting(forward_stdin(stdin, OnStdinEof::Close)));
    // Not before the command runs: until then Ctrl-C ends this program.
    let raw = terminal.map(Terminal::raw).transpose()?;
    // In raw mode Ctrl-C arrives as a byte. A signal is then sent by another process and ends this
    // program at once.
    let mut relay = Relay::new(control, interrupts, raw.is_some());
    let outcome = relay.run(&mut command).await;
    // Dropping the command kills it.
    drop(command);
    let interrupted = raw.is_some() && !matches!(outcome, Ok(Ending::Exited(_)));
    let is_line_open = relay.within_line && (interrupted || relay.echoed_interrupt);
    drop(raw);
    if is_line_open {
        // A note, or the shell's prompt, must start on a new line.
        output::say("");
    }
    Ok(ExitCode::from(match outcome? {
        Ending::Exited(status) => {
            notes(&status).into_iter().for_each(output::say);
            exit_code(&status)
        }
        Ending::Interrupted(signal) => exit::signalled(signal),
    }))
}

/// Maps the error of a command that did not start to the exit code of a shell: 127 if it was not
/// found, 126 if it cannot be executed.
fn not_started(error: Error) -> Failure {
    match (error.code(), error.field()) {
        (ErrorCode::FileNotFound, Some("argv")) => Failure::Coded(error, exit::NOT_FOUND),
        (ErrorCode::InvalidArgument | ErrorCode::PermissionDenied, Some("argv")) => {
            Failure::Coded(error, exit::NOT_EXECUTABLE)
        }
        _ => Failure::Error(error),
    }
}

/// Spawns a task that is aborted when the handle is dropped.
#[expect(
    clippy::disallowed_methods,
    reason = "aborted when its owner is dropped"
)]
pub(crate) fn spawn_aborting(
    work: impl Future<Output = ()> + Send + 'static,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(work))
}

/// Source of events of a remote command or process.
pub(crate) trait RemoteEvents {
    /// Exit status.
    type Status;

    /// Returns the next event; `None` when the stream ended.
    async fn next(&mut self) -> CoreResult<Option<RemoteEvent<Self::Status>>>;
}

/// Event of a remote command or process.
pub(crate) enum RemoteEvent<S> {
    Stdout(Bytes),
    Stderr(Bytes),
    /// Number of bytes of earlier output that the host no longer has.
    Missed(u64),
    Exited(S),
}

impl RemoteEvents for RemoteCommand {
    type Status = ExitStatus;

    async fn next(&mut self) -> CoreResult<Option<RemoteEvent<ExitStatus>>> {
        Ok(self.next_event().await?.map(|event| match event {
            ExecEvent::Stdout(bytes) => RemoteEvent::Stdout(bytes),
            ExecEvent::Stderr(bytes) => RemoteEvent::Stderr(bytes),
            ExecEvent::Exited(status) => RemoteEvent::Exited(status),
        }))
    }
}

/// Reason why a relay ended.
#[derive(Debug)]
pub(crate) enum Ending<S> {
    Exited(S),
    /// A second signal ended the wait.
    Interrupted(i32),
}

/// Relay of output and signals between this program and a remote process.
pub(crate) struct Relay<'a> {
    control: RemoteControl,
    interrupts: &'a mut Interrupts,
    /// Whether a signal was passed on already; the next one ends the relay.
    signalled: bool,
    /// Whether the last output ended in the middle of a line.
    pub(crate) within_line: bool,
    /// Whether the terminal has echoed `^C`.
    echoed_interrupt: bool,
}

impl<'a> Relay<'a> {
    /// With `signalled`, the first signal already ends the relay.
    pub(crate) fn new(
        control: RemoteControl,
        interrupts: &'a mut Interrupts,
        signalled: bool,
    ) -> Self {
        Self {
            control,
            interrupts,
            signalled,
            within_line: false,
            echoed_interrupt: false,
        }
    }

    /// Writes the output of the process until it exits or a second signal arrives.
    pub(crate) async fn run<E: RemoteEvents>(
        &mut self,
        events: &mut E,
    ) -> Outcome<Ending<E::Status>> {
        let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
        loop {
            let event = match self.listening(events.next()).await {
                Ok(event) => event?,
                Err(signal) => return Ok(Ending::Interrupted(signal)),
            };
            let written = match event {
                Some(RemoteEvent::Stdout(bytes)) => {
                    self.within_line = !bytes.ends_with(b"\n");
                    self.listening(pass_on(&mut stdout, &bytes)).await
                }
                Some(RemoteEvent::Stderr(bytes)) => {
                    self.within_line = !bytes.ends_with(b"\n");
                    self.listening(pass_on(&mut stderr, &bytes)).await
                }
                Some(RemoteEvent::Missed(bytes)) => {
                    output::say(format_args!(
                        "note: {bytes} bytes before this are no longer available"
                    ));
                    continue;
                }
                Some(RemoteEvent::Exited(status)) => return Ok(Ending::Exited(status)),
                None => {
                    return Err(Error::internal("command ended without an exit status").into());
                }
            };
            match written {
                Ok(outcome) => outcome.map_err(Failure::writing)?,
                Err(signal) => return Ok(Ending::Interrupted(signal)),
            }
        }
    }

    /// Waits for `work` and passes the first signal on to the process meanwhile. The second signal
    /// is returned as the error.
    async fn listening<T>(&mut self, work: impl Future<Output = T>) -> Result<T, i32> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                signal = self.interrupts.next() => {
                    if self.signalled {
                        return Err(signal);
                    }
                    self.signalled = true;
                    if signal == libc::SIGINT && io::stdin().is_terminal() && io::stderr().is_terminal() {
                        (self.within_line, self.echoed_interrupt) = (true, true);
                    }
                    let control = self.control.clone();
                    // In a task of its own: it may queue behind stdin that the process does not
                    // read, and must not delay the second signal.
                    #[expect(clippy::disallowed_methods, reason = "ends with the signal call, and the program exits soon after")]
                    tokio::spawn(async move { drop(control.signal(signal).await) });
                }
            }
        }
    }
}

/// Returns notes on an exit that the exit code alone does not explain.
fn notes(status: &ExitStatus) -> Vec<&'static str> {
    [
        (status.timed_out, "note: command killed after its timeout"),
        (
            status.oom_killed,
            "note: the command or one of its children was killed at the memory limit",
        ),
        (
            status.truncated,
            "note: output beyond the limit was dropped",
        ),
    ]
    .into_iter()
    .filter_map(|(holds, note)| holds.then_some(note))
    .collect()
}

/// Returns the exit code that a shell would report.
fn exit_code(status: &ExitStatus) -> u8 {
    match status {
        ExitStatus {
            timed_out: true, ..
        } => exit::TIMED_OUT,
        ExitStatus {
            signal: Some(signal),
            ..
        } => exit::signalled(*signal),
        ExitStatus {
            code: Some(code), ..
        } => u8::try_from(code & 0xff).unwrap_or(exit::FAILED),
        _ => exit::FAILED,
    }
}

/// Action at the end of our stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnStdinEof {
    /// Closes the stdin of the remote process.
    Close,
    /// Leaves it open: other attached clients may send more.
    KeepOpen,
}

/// Forwards our stdin to the remote process.
pub(crate) async fn forward_stdin(stdin: RemoteStdin, on_eof: OnStdinEof) {
    if let Ok(mut input) = Input::open() {
        while let Some(bytes) = input.next().await {
            if stdin.write(bytes).await.is_err() {
                // The process closed its stdin; it is still running.
                return;
            }
        }
    }
    if on_eof == OnStdinEof::Close {
        let _ = stdin.close().await;
    }
}

/// Forwards every new size of our terminal.
pub(crate) async fn forward_sizes(mut sizes: Sizes, control: RemoteControl) {
    while control.resize(sizes.next().await).await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_match_a_shell() {
        let ended = ExitStatus::default();
        for (status, code) in [
            (
                ExitStatus {
                    code: Some(0),
                    ..ended
                },
                0,
            ),
            (
                ExitStatus {
                    code: Some(3),
                    ..ended
                },
                3,
            ),
            (
                ExitStatus {
                    signal: Some(9),
                    ..ended
                },
                137,
            ),
            (
                ExitStatus {
                    signal: Some(9),
                    timed_out: true,
                    ..ended
                },
                124,
            ),
            (ended, 1),
        ] {
            assert_eq!(exit_code(&status), code, "{status:?}");
        }
    }

    #[test]
    fn abnormal_exit_is_explained() {
        let ended = ExitStatus {
            code: Some(0),
            ..ExitStatus::default()
        };
        assert!(notes(&ended).is_empty());
        for (status, word) in [
            (
                ExitStatus {
                    timed_out: true,
                    ..ended
                },
                "timeout",
            ),
            (
                ExitStatus {
                    oom_killed: true,
                    ..ended
                },
                "memory limit",
            ),
            (
                ExitStatus {
                    truncated: true,
                    ..ended
                },
                "dropped",
            ),
        ] {
            let notes = notes(&status);
            assert!(
                notes.len() == 1 && notes[0].starts_with("note: ") && notes[0].contains(word),
                "{notes:?}"
            );
        }
        assert_eq!(
            notes(&ExitStatus {
                timed_out: true,
                oom_killed: true,
                truncated: true,
                ..ended
            })
            .len(),
            3
        );
    }

    #[test]
    fn failed_start_exits_as_in_a_shell() {
        let code = |failure| match failure {
            Failure::Coded(_, code) => code,
            _ => exit::FAILED,
        };
        let unknown = Error::new(ErrorCode::FileNotFound, "no such command").with_field("argv");
        assert_eq!(code(not_started(unknown)), 127);
        assert_eq!(
            code(not_started(Error::invalid("argv", "not executable"))),
            126
        );
        assert_eq!(
            code(not_started(Error::invalid("cwd", "no such directory"))),
            1
        );
    }
}
