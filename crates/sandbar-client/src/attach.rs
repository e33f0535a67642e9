//! Talking with processes on the other side.

use std::fmt;

use sandbar_core::{AttachEvent, ProcessId, ProcessInfo, Replay, Result, SessionId, TerminalSize};
use sandbar_proto::{
    unpack_attach_event,
    v1::{self, attach_process_request::Request, attach_process_response::Event},
};

use crate::{
    Client,
    client::incomplete,
    conversation::{Ends, RemoteControl, RemoteStdin, call},
};

impl Client {
    /// Attaches to a process: what it writes, its input, signals and the size of its terminal.
    pub async fn attach_process(
        &self,
        id: &SessionId,
        process: &ProcessId,
        replay: Replay,
    ) -> Result<RemoteAttachment> {
        let (mut sender, receiver) = self.once(self.rpc.attach_process()).await?.into_split();
        // This fails only when the server has ended the call, and then the first answer says why.
        let _ = sender.send(AttachCall::message(v1::AttachStart::new(id, process, replay))).await;
        let mut call = Ends::of(self, AttachCall { sender, receiver });
        let Some(Event::Attached(attached)) = call.first().await? else { return Err(incomplete("process")) };
        let v1::ProcessAttached { process, stdin: takes_stdin, terminal: has_terminal, .. } = *attached;
        let process = process.into_option().ok_or_else(|| incomplete("process"))?.try_into()?;
        Ok(RemoteAttachment { process, has_terminal, takes_stdin, call })
    }
}

/// A process on the other side, and one who is attached to it. Dropping this leaves the process running.
pub struct RemoteAttachment {
    /// The process as it was found.
    pub process: ProcessInfo,
    /// Whether it has a terminal.
    pub has_terminal: bool,
    takes_stdin: bool,
    call: Ends<Event>,
}

impl RemoteAttachment {
    /// The next event; `None` after `Exited`. Who reads slowly misses something, and is told how much. `Unavailable` when
    /// the host went away meanwhile.
    pub async fn next_event(&mut self) -> Result<Option<AttachEvent>> {
        while let Some(event) = self.call.next().await? {
            if let Some(event) = unpack_attach_event(event)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// A handle that feeds stdin; `None` when the process was launched without one.
    pub fn stdin(&self) -> Option<RemoteStdin> {
        self.takes_stdin.then(|| self.call.stdin())
    }

    /// Sends a signal to the process and everything it started.
    pub async fn signal(&self, signal: i32) -> Result<()> {
        self.control().signal(signal).await
    }

    /// Changes the size of its terminal. The call fails when the process was launched without one.
    pub async fn resize(&self, size: TerminalSize) -> Result<()> {
        self.control().resize(size).await
    }

    /// A handle that sends signals and sizes while something else reads the events.
    pub fn control(&self) -> RemoteControl {
        self.call.control()
    }
}

impl fmt::Debug for RemoteAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteAttachment").field("process", &self.process.id).finish_non_exhaustive()
    }
}

call!(AttachCall, v1::AttachProcessRequest, v1::AttachProcessResponseView<'static>, Request, Event);
