//! Staying with something that runs until it ends: its output comes here, our input and our Ctrl-C go there.

use std::{
    future::Future,
    io::{self, IsTerminal},
    process::ExitCode,
};

use bytes::Bytes;
use sandbar_client::{Client, RemoteCommand, RemoteControl, RemoteStdin};
use sandbar_core::{ByteCount, Error, ErrorCode, ExecEvent, ExecSpec, ExitStatus, Result as CoreResult, SessionId};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    failure::{Failure, Outcome, exit},
    input::Input,
    interrupt::Interrupts,
    output::{self, pass_on},
    terminal::{Sizes, Terminal},
};

/// What a command may write when we pass it on as it comes: nothing is kept, so nothing needs to be dropped.
pub(crate) const UNBOUNDED_OUTPUT: ByteCount = ByteCount(1 << 60);

/// Starts a command and stays with it. Its exit code is ours. With a terminal, the command runs at one of its own that is
/// like ours, and ours only passes keys and output on.
pub(crate) async fn attend(
    client: &Client,
    id: &SessionId,
    mut spec: ExecSpec,
    terminal: Option<&Terminal>,
    interrupts: &mut Interrupts,
) -> Outcome<ExitCode> {
    // Before the size is looked at, so that no change of it is missed.
    let sizes = terminal.map(Terminal::sizes).transpose()?;
    if let Some(terminal) = terminal {
        terminal.describe(&mut spec);
    }
    let mut command = tokio::select! {
        started = Box::pin(client.exec(id, spec)) => started.map_err(not_started)?,
        signal = interrupts.next() => return Ok(ExitCode::from(exit::signalled(signal))),
    };
    let control = command.control();
    let _resizer = sizes.map(|sizes| in_background(pass_sizes_on(sizes, control.clone())));
    let _feeder = command.stdin().map(|stdin| in_background(feed(stdin, AtTheEnd::Close)));
    // Only now: until the command runs, Ctrl-C is for us.
    let raw = terminal.map(Terminal::raw).transpose()?;
    // In raw mode Ctrl-C is a key like any other. A signal then comes from elsewhere, and means us.
    let mut attendance = Attendance::new(control, interrupts, raw.is_some());
    let outcome = attendance.follow(&mut command).await;
    // Letting go of the command kills it.
    drop(command);
    let broken_off = raw.is_some() && !matches!(outcome, Ok(End::Exited(_)));
    let is_line_open = attendance.within_line && (broken_off || attendance.shown_key);
    drop(raw);
    if is_line_open {
        // What we say about it, or the shell's next prompt, starts on a line of its own.
        output::say("");
    }
    Ok(ExitCode::from(match outcome? {
        End::Exited(status) => {
            notes(&status).into_iter().for_each(output::say);
            exit_code(&status)
        }
        End::LetGo(signal) => exit::signalled(signal),
    }))
}

/// A command that cannot start ends as in a shell: 127 when it is not there, 126 when it cannot be executed.
fn not_started(error: Error) -> Failure {
    match (error.code(), error.field()) {
        (ErrorCode::FileNotFound, Some("argv")) => Failure::Coded(error, exit::NOT_FOUND),
        (ErrorCode::InvalidArgument | ErrorCode::PermissionDenied, Some("argv")) => {
            Failure::Coded(error, exit::NOT_EXECUTABLE)
        }
        _ => Failure::Error(error),
    }
}

/// Something that ends with what is attended.
pub(crate) fn in_background(work: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(work))
}

/// Something that runs on the other side.
pub(crate) trait Attended {
    /// How it ended.
    type Status;

    async fn next(&mut self) -> CoreResult<Option<Seen<Self::Status>>>;
}

/// Something it did.
pub(crate) enum Seen<S> {
    Stdout(Bytes),
    Stderr(Bytes),
    /// So many bytes cannot be shown.
    Missed(u64),
    Ended(S),
}

impl Attended for RemoteCommand {
    type Status = ExitStatus;

    async fn next(&mut self) -> CoreResult<Option<Seen<ExitStatus>>> {
        Ok(self.next_event().await?.map(|event| match event {
            ExecEvent::Stdout(bytes) => Seen::Stdout(bytes),
            ExecEvent::Stderr(bytes) => Seen::Stderr(bytes),
            ExecEvent::Exited(status) => Seen::Ended(status),
        }))
    }
}

/// How we part from it.
#[derive(Debug)]
pub(crate) enum End<S> {
    Exited(S),
    /// This signal did not let us wait any longer.
    LetGo(i32),
}

pub(crate) struct Attendance<'a> {
    control: RemoteControl,
    interrupts: &'a mut Interrupts,
    /// Whether the next signal lets us go: it has been asked to stop already.
    asked: bool,
    /// Whether the last output ended in the middle of a line.
    pub(crate) within_line: bool,
    /// Whether the terminal has shown a `^C` of somebody's.
    shown_key: bool,
}

impl<'a> Attendance<'a> {
    /// `asked`: already the first signal is for us.
    pub(crate) fn new(control: RemoteControl, interrupts: &'a mut Interrupts, asked: bool) -> Self {
        Self { control, interrupts, asked, within_line: false, shown_key: false }
    }

    pub(crate) async fn follow<A: Attended>(&mut self, attended: &mut A) -> Outcome<End<A::Status>> {
        let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
        loop {
            let event = match self.listening(attended.next()).await {
                Ok(event) => event?,
                Err(signal) => return Ok(End::LetGo(signal)),
            };
            let written = match event {
                Some(Seen::Stdout(bytes)) => {
                    self.within_line = !bytes.ends_with(b"\n");
                    self.listening(pass_on(&mut stdout, &bytes)).await
                }
                Some(Seen::Stderr(bytes)) => {
                    self.within_line = !bytes.ends_with(b"\n");
                    self.listening(pass_on(&mut stderr, &bytes)).await
                }
                Some(Seen::Missed(bytes)) => {
                    output::say(format_args!("note: {bytes} bytes before this are no longer kept"));
                    continue;
                }
                Some(Seen::Ended(status)) => return Ok(End::Exited(status)),
                None => return Err(Error::internal("the command ended without an exit status").into()),
            };
            match written {
                Ok(outcome) => outcome.map_err(Failure::writing)?,
                Err(signal) => return Ok(End::LetGo(signal)),
            }
        }
    }

    /// Waits for `work`, and passes the first signal on to the command meanwhile. The second one is the error: whoever
    /// sends it does not want to wait any longer.
    async fn listening<T>(&mut self, work: impl Future<Output = T>) -> Result<T, i32> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                signal = self.interrupts.next() => {
                    if self.asked {
                        return Err(signal);
                    }
                    self.asked = true;
                    if signal == libc::SIGINT && io::stdin().is_terminal() && io::stderr().is_terminal() {
                        (self.within_line, self.shown_key) = (true, true);
                    }
                    let control = self.control.clone();
                    // It may have to wait behind input the command does not read; the second signal does not.
                    tokio::spawn(async move { drop(control.signal(signal).await) });
                }
            }
        }
    }
}

/// What is worth saying about an end beyond its exit code.
fn notes(status: &ExitStatus) -> Vec<&'static str> {
    [
        (status.timed_out, "note: the command was killed because its time was up"),
        (
            status.oom_killed,
            "note: the command, or something it started, was killed because the memory limit was reached",
        ),
        (status.truncated, "note: output beyond the limit was dropped"),
    ]
    .into_iter()
    .filter_map(|(holds, note)| holds.then_some(note))
    .collect()
}

/// The exit code a shell would report.
fn exit_code(status: &ExitStatus) -> u8 {
    match status {
        ExitStatus { timed_out: true, .. } => exit::TIMED_OUT,
        ExitStatus { signal: Some(signal), .. } => exit::signalled(*signal),
        ExitStatus { code: Some(code), .. } => u8::try_from(code & 0xff).unwrap_or(exit::FAILED),
        _ => exit::FAILED,
    }
}

/// What the end of our stdin is to what reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtTheEnd {
    /// The end of its own.
    Close,
    /// Nothing: somebody else may have more.
    Leave,
}

/// Our stdin as the command's.
pub(crate) async fn feed(stdin: RemoteStdin, at_the_end: AtTheEnd) {
    if let Ok(mut input) = Input::open() {
        while let Some(bytes) = input.next().await {
            if stdin.write(bytes).await.is_err() {
                // The command no longer reads. That is its right, and it is still running.
                return;
            }
        }
    }
    if at_the_end == AtTheEnd::Close {
        let _ = stdin.close().await;
    }
}

/// Every new size of our terminal for the command's.
pub(crate) async fn pass_sizes_on(mut sizes: Sizes, control: RemoteControl) {
    while control.resize(sizes.next().await).await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_a_shell_reports() {
        let ended = ExitStatus::default();
        for (status, code) in [
            (ExitStatus { code: Some(0), ..ended }, 0),
            (ExitStatus { code: Some(3), ..ended }, 3),
            (ExitStatus { signal: Some(9), ..ended }, 137),
            (ExitStatus { signal: Some(9), timed_out: true, ..ended }, 124),
            (ended, 1),
        ] {
            assert_eq!(exit_code(&status), code, "{status:?}");
        }
    }

    #[test]
    fn an_end_that_was_not_the_commands_own_is_explained() {
        let ended = ExitStatus { code: Some(0), ..ExitStatus::default() };
        assert!(notes(&ended).is_empty());
        for (status, word) in [
            (ExitStatus { timed_out: true, ..ended }, "time"),
            (ExitStatus { oom_killed: true, ..ended }, "memory limit"),
            (ExitStatus { truncated: true, ..ended }, "dropped"),
        ] {
            let notes = notes(&status);
            assert!(notes.len() == 1 && notes[0].starts_with("note: ") && notes[0].contains(word), "{notes:?}");
        }
        assert_eq!(notes(&ExitStatus { timed_out: true, oom_killed: true, truncated: true, ..ended }).len(), 3);
    }

    #[test]
    fn a_command_that_cannot_start_ends_as_in_a_shell() {
        let code = |failure| match failure {
            Failure::Coded(_, code) => code,
            _ => exit::FAILED,
        };
        let unknown = Error::new(ErrorCode::FileNotFound, "no such command").with_field("argv");
        assert_eq!(code(not_started(unknown)), 127);
        assert_eq!(code(not_started(Error::invalid("argv", "not executable"))), 126);
        assert_eq!(code(not_started(Error::invalid("cwd", "no such directory"))), 1);
    }
}
