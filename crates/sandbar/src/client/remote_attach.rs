//! Attaches to a remote process until it exits or the user detaches; it keeps running then.

use std::process::ExitCode;

use bytes::Bytes;
use sandbar_client::{Client, RemoteAttachment, RemoteStdin};
use sandbar_core::{AttachEvent, ProcessExit, ProcessId, Replay, Result, SessionId};
use tokio::sync::oneshot;

use crate::{
    client::remote_exec::{
        Ending, OnStdinEof, Relay, RemoteEvent, RemoteEvents, forward_sizes, forward_stdin,
        spawn_aborting,
    },
    failure::{Outcome, exit},
    terminal::{Input, Interrupts, Terminal, output},
};

/// Keys that detach from a process at a terminal: Ctrl-P Ctrl-Q.
const DETACH_KEYS: [u8; 2] = [0x10, 0x11];

/// Attaches to a process and returns its exit code, or 0 after a detach. When both sides have a
/// terminal, ours is in raw mode and forwards its keys and sizes.
pub(crate) async fn attach(
    client: &Client,
    id: &SessionId,
    process: &ProcessId,
    (replay, on_eof): (Replay, OnStdinEof),
    terminal: Option<&Terminal>,
    interrupts: &mut Interrupts,
) -> Outcome {
    let sizes = terminal.map(Terminal::sizes).transpose()?;
    let mut attachment = tokio::select! {
        attachment = Box::pin(client.attach_process(id, process, replay)) => attachment?,
        signal = interrupts.next() => return Ok(ExitCode::from(exit::signalled(signal))),
    };
    let terminal = terminal.filter(|_| attachment.has_terminal);
    let control = attachment.control();
    let (detach, detach_keys) = oneshot::channel();
    let _resizer = match (terminal, sizes) {
        (Some(terminal), Some(sizes)) => {
            // Fails if the process has exited already; the exit is the next event.
            let _ = control.resize(terminal.size()).await;
            Some(spawn_aborting(forward_sizes(sizes, control.clone())))
        }
        _ => None,
    };
    let _feeder = attachment.stdin().map(|stdin| match terminal {
        Some(_) => spawn_aborting(forward_keys(stdin, detach)),
        None => spawn_aborting(forward_stdin(stdin, on_eof)),
    });
    let raw_mode = terminal.map(Terminal::raw).transpose()?;
    let mut io_relay = Relay::new(control, interrupts, raw_mode.is_some());
    let outcome = tokio::select! {
        outcome = io_relay.run(&mut attachment) => Some(outcome),
        // Only at a terminal: elsewhere the sender is dropped unused.
        Ok(()) = detach_keys => None,
    };
    let within_line = raw_mode.is_some() && io_relay.within_line;
    drop(raw_mode);
    if within_line && !matches!(outcome, Some(Ok(Ending::Exited(_)))) {
        // The note must start on a new line.
        output::say("");
    }
    let code = match outcome.transpose()? {
        Some(Ending::Exited(exited)) => return Ok(ExitCode::from(exit_code(&exited))),
        Some(Ending::Interrupted(signal)) => exit::signalled(signal),
        None => 0,
    };
    output::say(format_args!(
        "detached; the process keeps running. Attach again with `sandbar attach {id} {process}`"
    ));
    Ok(ExitCode::from(code))
}

impl RemoteEvents for RemoteAttachment {
    type Status = ProcessExit;

    async fn next(&mut self) -> Result<Option<RemoteEvent<ProcessExit>>> {
        Ok(self.next_event().await?.map(|event| match event {
            AttachEvent::Stdout(bytes) => RemoteEvent::Stdout(bytes),
            AttachEvent::Stderr(bytes) => RemoteEvent::Stderr(bytes),
            AttachEvent::Missed { bytes, .. } => RemoteEvent::Missed(bytes),
            AttachEvent::Exited(exit) => RemoteEvent::Exited(exit),
        }))
    }
}

/// Forwards keys to the process until the detach keys.
async fn forward_keys(stdin: RemoteStdin, detach: oneshot::Sender<()>) {
    let Ok(mut input) = Input::open() else { return };
    let mut keys = DetachFilter::default();
    while let Some(bytes) = input.next().await {
        let (typed, detaches) = keys.take(&bytes);
        if !typed.is_empty() && stdin.write(typed).await.is_err() {
            return;
        }
        if detaches {
            let _ = detach.send(());
            return;
        }
    }
}

/// Filter that finds the detach keys in the input.
#[derive(Debug, Default)]
struct DetachFilter {
    /// Whether the first of the two keys was typed and is held back.
    half: bool,
}

impl DetachFilter {
    /// Returns the bytes to forward, and whether to detach after them.
    fn take(&mut self, typed: &[u8]) -> (Bytes, bool) {
        let mut passed = Vec::with_capacity(typed.len() + 1);
        for key in typed {
            match (self.half, *key) {
                (true, key) if key == DETACH_KEYS[1] => return (passed.into(), true),
                (true, key) if key == DETACH_KEYS[0] => passed.push(key),
                (true, key) => {
                    self.half = false;
                    passed.extend([DETACH_KEYS[0], key]);
                }
                (false, key) if key == DETACH_KEYS[0] => self.half = true,
                (false, key) => passed.push(key),
            }
        }
        (passed.into(), false)
    }
}

/// Returns the exit code that a shell would report.
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
    fn only_both_detach_keys_in_a_row_detach() {
        let mut keys = DetachFilter::default();
        assert_eq!(keys.take(b"ls\r"), (Bytes::from("ls\r"), false));
        assert_eq!(keys.take(b"\x10"), (Bytes::new(), false));
        assert_eq!(keys.take(b"x\x11"), (Bytes::from("\x10x\x11"), false));
        assert_eq!(keys.take(b"a\x10\x10"), (Bytes::from("a\x10"), false));
        assert_eq!(keys.take(b"\x11rest"), (Bytes::new(), true));
        let mut at_once = DetachFilter::default();
        assert_eq!(at_once.take(b"ab\x10\x11"), (Bytes::from("ab"), true));
    }
}
