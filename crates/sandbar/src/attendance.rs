//! Staying with a command until it ends: its output comes here, our input and our Ctrl-C go there.

use std::{future::Future, io, process::ExitCode, thread};

use bytes::Bytes;
use sandbar_client::{Client, RemoteCommand, RemoteSignaller, RemoteStdin};
use sandbar_core::{ByteCount, Error, ErrorCode, ExecEvent, ExecSpec, ExitStatus, SessionId};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::JoinHandle,
};

use crate::{
    failure::{Failure, Outcome, exit},
    interrupt::Interrupts,
    output,
};

/// What a command may write when we pass it on as it comes: nothing is kept, so nothing needs to be dropped.
pub(crate) const UNBOUNDED_OUTPUT: ByteCount = ByteCount(1 << 60);

/// Starts a command and stays with it. Its exit code is ours.
pub(crate) async fn attend(
    client: &Client,
    id: &SessionId,
    spec: ExecSpec,
    interrupts: &mut Interrupts,
) -> Outcome<ExitCode> {
    let command = client.exec(id, spec).await.map_err(not_started)?;
    let mut attendance = Attendance { signaller: command.signaller(), interrupts, asked: false };
    let _feeder = command.stdin().map(|stdin| Feeder(tokio::spawn(feed(stdin))));
    attendance.follow(command).await
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

/// Stops feeding when the command has ended.
struct Feeder(JoinHandle<()>);

impl Drop for Feeder {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Attendance<'a> {
    signaller: RemoteSignaller,
    interrupts: &'a mut Interrupts,
    /// Whether the command has been asked to stop already.
    asked: bool,
}

impl Attendance<'_> {
    async fn follow(&mut self, mut command: RemoteCommand) -> Outcome<ExitCode> {
        let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
        loop {
            let Some(event) = self.listening(command.next_event()).await else {
                return Ok(ExitCode::from(exit::INTERRUPTED));
            };
            let written = match event? {
                Some(ExecEvent::Stdout(bytes)) => self.listening(pass_on(&mut stdout, &bytes)).await,
                Some(ExecEvent::Stderr(bytes)) => self.listening(pass_on(&mut stderr, &bytes)).await,
                Some(ExecEvent::Exited(status)) => return Ok(ended(&status)),
                None => {
                    return Err(Error::new(ErrorCode::Unavailable, "the host ended the call before the command ended")
                        .with_hint("look at what the host says, then try again")
                        .into());
                }
            };
            match written {
                Some(outcome) => outcome.map_err(Failure::writing)?,
                None => return Ok(ExitCode::from(exit::INTERRUPTED)),
            }
        }
    }

    /// Waits for `work`, and passes the first interrupt on to the command meanwhile. `None` on the second: whoever sends
    /// it does not want to wait any longer, and letting go of the command kills it.
    async fn listening<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                signal = self.interrupts.next() => {
                    if self.asked {
                        return None;
                    }
                    self.asked = true;
                    let signaller = self.signaller.clone();
                    // It may have to wait behind input the command does not read; the second interrupt does not.
                    tokio::spawn(async move { drop(signaller.signal(signal).await) });
                }
            }
        }
    }
}

async fn pass_on(target: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    target.write_all(bytes).await?;
    target.flush().await
}

fn ended(status: &ExitStatus) -> ExitCode {
    if status.truncated {
        output::say("note: output beyond the limit was dropped");
    }
    ExitCode::from(exit_code(status))
}

/// The exit code a shell would report.
fn exit_code(status: &ExitStatus) -> u8 {
    let byte = |number: i32| u8::try_from(number & 0xff).unwrap_or(exit::FAILED);
    match status {
        ExitStatus { timed_out: true, .. } => exit::TIMED_OUT,
        ExitStatus { signal: Some(signal), .. } => byte(128 + signal),
        ExitStatus { code: Some(code), .. } => byte(*code),
        _ => exit::FAILED,
    }
}

/// Our stdin as the command's. Reading happens on a thread of its own, since a read of a terminal cannot be cancelled.
async fn feed(stdin: RemoteStdin) {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(4);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        let mut input = io::stdin().lock();
        loop {
            match io::Read::read(&mut input, &mut buffer) {
                Ok(0) => return,
                Ok(read) => {
                    if sender.blocking_send(Bytes::copy_from_slice(&buffer[..read])).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    while let Some(bytes) = receiver.recv().await {
        if stdin.write(bytes).await.is_err() {
            // The command no longer reads. That is its right, and it is still running.
            return;
        }
    }
    let _ = stdin.close().await;
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
