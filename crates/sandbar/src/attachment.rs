//! Staying with a process until it ends or we leave it: it goes on without us.

use std::process::ExitCode;

use bytes::Bytes;
use sandbar_client::{Client, RemoteAttachment, RemoteStdin};
use sandbar_core::{AttachEvent, ProcessExit, ProcessId, Replay, Result, SessionId};
use tokio::sync::oneshot;

use crate::{
    attendance::{AtTheEnd, Attendance, Attended, End, Seen, feed, in_background, pass_sizes_on},
    failure::{Outcome, exit},
    input::Input,
    interrupt::Interrupts,
    output,
    terminal::Terminal,
};

/// What is typed to leave a process at a terminal: Ctrl-P Ctrl-Q.
const LEAVE: [u8; 2] = [0x10, 0x11];

/// Attaches to a process and stays with it. Its exit code is ours; when we leave it before its end, ours is 0. Our terminal
/// becomes the process's when both have one.
pub(crate) async fn join(
    client: &Client,
    id: &SessionId,
    process: &ProcessId,
    (replay, at_the_end): (Replay, AtTheEnd),
    terminal: Option<&Terminal>,
    interrupts: &mut Interrupts,
) -> Outcome {
    let sizes = terminal.map(Terminal::sizes).transpose()?;
    let mut attachment = tokio::select! {
        attached = Box::pin(client.attach_process(id, process, replay)) => attached?,
        signal = interrupts.next() => return Ok(ExitCode::from(exit::signalled(signal))),
    };
    let terminal = terminal.filter(|_| attachment.has_terminal);
    let control = attachment.control();
    let (leave, left) = oneshot::channel();
    let _resizer = match (terminal, sizes) {
        (Some(terminal), Some(sizes)) => {
            // It may have ended already, which is told next.
            let _ = control.resize(terminal.size()).await;
            Some(in_background(pass_sizes_on(sizes, control.clone())))
        }
        _ => None,
    };
    let _feeder = attachment.stdin().map(|stdin| match terminal {
        Some(_) => in_background(type_to(stdin, leave)),
        None => in_background(feed(stdin, at_the_end)),
    });
    let raw = terminal.map(Terminal::raw).transpose()?;
    let mut attendance = Attendance::new(control, interrupts, raw.is_some());
    let outcome = tokio::select! {
        outcome = attendance.follow(&mut attachment) => Some(outcome),
        // Without a terminal nobody leaves this way.
        Ok(()) = left => None,
    };
    let within_line = raw.is_some() && attendance.within_line;
    drop(raw);
    if within_line && !matches!(outcome, Some(Ok(End::Exited(_)))) {
        // What we say about it starts on a line of its own.
        output::say("");
    }
    let code = match outcome.transpose()? {
        Some(End::Exited(exited)) => return Ok(ExitCode::from(exit_code(&exited))),
        Some(End::LetGo(signal)) => exit::signalled(signal),
        None => 0,
    };
    output::say(format_args!("left; it runs on. Come back with `sandbar attach {id} {process}`"));
    Ok(ExitCode::from(code))
}

impl Attended for RemoteAttachment {
    type Status = ProcessExit;

    async fn next(&mut self) -> Result<Option<Seen<ProcessExit>>> {
        Ok(self.next_event().await?.map(|event| match event {
            AttachEvent::Stdout(bytes) => Seen::Stdout(bytes),
            AttachEvent::Stderr(bytes) => Seen::Stderr(bytes),
            AttachEvent::Missed { bytes, .. } => Seen::Missed(bytes),
            AttachEvent::Exited(exit) => Seen::Ended(exit),
        }))
    }
}

/// Our keys as those of the process, until the keys that leave it.
async fn type_to(stdin: RemoteStdin, leave: oneshot::Sender<()>) {
    let Ok(mut input) = Input::open() else { return };
    let mut keys = Keys::default();
    while let Some(bytes) = input.next().await {
        let (typed, leaves) = keys.take(&bytes);
        if !typed.is_empty() && stdin.write(typed).await.is_err() {
            return;
        }
        if leaves {
            let _ = leave.send(());
            return;
        }
    }
}

/// Looks for the keys that leave in what is typed.
#[derive(Debug, Default)]
struct Keys {
    /// The first of them was typed, and is held back.
    half: bool,
}

impl Keys {
    /// What the process is to have, and whether we leave it afterwards.
    fn take(&mut self, typed: &[u8]) -> (Bytes, bool) {
        let mut passed = Vec::with_capacity(typed.len() + 1);
        for key in typed {
            match (self.half, *key) {
                (true, key) if key == LEAVE[1] => return (passed.into(), true),
                (true, key) if key == LEAVE[0] => passed.push(key),
                (true, key) => {
                    self.half = false;
                    passed.extend([LEAVE[0], key]);
                }
                (false, key) if key == LEAVE[0] => self.half = true,
                (false, key) => passed.push(key),
            }
        }
        (passed.into(), false)
    }
}

/// The exit code a shell would report.
fn exit_code(exited: &ProcessExit) -> u8 {
    match (exited.code, exited.signal) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(exit::FAILED),
        (None, Some(signal)) => exit::signalled(signal),
        (None, None) => exit::FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_both_keys_in_a_row_leave_and_every_other_key_arrives() {
        let mut keys = Keys::default();
        assert_eq!(keys.take(b"ls\r"), (Bytes::from("ls\r"), false));
        assert_eq!(keys.take(b"\x10"), (Bytes::new(), false));
        assert_eq!(keys.take(b"x\x11"), (Bytes::from("\x10x\x11"), false));
        assert_eq!(keys.take(b"a\x10\x10"), (Bytes::from("a\x10"), false));
        assert_eq!(keys.take(b"\x11rest"), (Bytes::new(), true));
        let mut at_once = Keys::default();
        assert_eq!(at_once.take(b"ab\x10\x11"), (Bytes::from("ab"), true));
    }
}
