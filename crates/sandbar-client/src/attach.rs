//! `AttachProcess`: input and output of processes on the host.

use std::fmt;

use sandbar_core::{AttachEvent, ProcessId, ProcessInfo, Replay, Result, SessionId, TerminalSize};
use sandbar_proto::{
    unpack_attach_event,
    v1::{self, attach_process_request::Request, attach_process_response::Event},
};

use crate::{
    Client,
    bidi_call::{CallHandle, RemoteControl, RemoteStdin, bidi_call},
    client::incomplete,
};

impl Client {
    /// Attaches to the output, stdin, signals and terminal of a process.
    pub async fn attach_process(
        &self,
        id: &SessionId,
        process: &ProcessId,
        replay: Replay,
    ) -> Result<RemoteAttachment> {
        let (mut sender, receiver) = self.once(self.rpc.attach_process()).await?.into_split();
        // Fails only when the server has ended the call, and then the first response has the error.
        let _ = sender
            .send(AttachCall::message(v1::AttachStart::new(
                id, process, replay,
            )))
            .await;
        let mut call = CallHandle::start(self, AttachCall { sender, receiver });
        let Some(Event::Attached(attached)) = call.first().await? else {
            return Err(incomplete("process"));
        };
        let v1::ProcessAttached {
            process,
            stdin: takes_stdin,
            terminal: has_terminal,
            ..
        } = *attached;
        let process = process
            .into_option()
            .ok_or_else(|| incomplete("process"))?
            .try_into()?;
        Ok(RemoteAttachment {
            process,
            has_terminal,
            takes_stdin,
            call,
        })
    }
}

/// Attachment to a process on the host. Dropping it leaves the process running.
pub struct RemoteAttachment {
    /// State of the process at the start of the attachment.
    pub process: ProcessInfo,
    /// Whether it has a terminal.
    pub has_terminal: bool,
    takes_stdin: bool,
    call: CallHandle<Event>,
}

impl RemoteAttachment {
    /// Returns the next event; `None` after `Exited`. A slow reader misses output, and an event
    /// counts the missed bytes. `Unavailable` when the connection is lost.
    pub async fn next_event(&mut self) -> Result<Option<AttachEvent>> {
        while let Some(event) = self.call.next().await? {
            if let Some(event) = unpack_attach_event(event)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Returns a writer to stdin; `None` when the process was launched without one.
    pub fn stdin(&self) -> Option<RemoteStdin> {
        self.takes_stdin.then(|| self.call.stdin())
    }

    /// Sends a signal to the process and everything it started.
    pub async fn signal(&self, signal: i32) -> Result<()> {
        self.control().signal(signal).await
    }

    /// Resizes its terminal. The call ends with an error when the process has no terminal.
    pub async fn resize(&self, size: TerminalSize) -> Result<()> {
        self.control().resize(size).await
    }

    /// Returns a handle for signals and sizes that is independent of the reader of events.
    pub fn control(&self) -> RemoteControl {
        self.call.control()
    }
}

impl fmt::Debug for RemoteAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteAttachment")
            .field("process", &self.process.id)
            .finish_non_exhaustive()
    }
}

bidi_call!(
    AttachCall,
    v1::AttachProcessRequest,
    v1::AttachProcessResponseView<'static>,
    Request,
    Event
);
