//! `Exec`: commands on the host.

use std::fmt;

use sandbar_core::{ExecEvent, ExecSpec, Result, SessionId, StdinMode, TerminalSize};
use sandbar_proto::v1::{self, exec_request::Request, exec_response::Event};

use crate::{
    Client,
    bidi_call::{CallHandle, RemoteControl, RemoteStdin, bidi_call},
    client::incomplete,
};

impl Client {
    /// Starts a command, and returns when it is running.
    pub async fn exec(&self, id: &SessionId, spec: ExecSpec) -> Result<RemoteCommand> {
        let piped = spec.stdin == StdinMode::Piped;
        let (mut sender, receiver) = self.once(self.rpc.exec()).await?.into_split();
        // Fails only when the server has ended the call, and then the first response has the error.
        let _ = sender
            .send(ExecCall::message(v1::ExecStart::new(id, spec)))
            .await;
        let mut call = CallHandle::start(self, ExecCall { sender, receiver });
        match call.first().await? {
            Some(Event::Started(started)) => Ok(RemoteCommand {
                pid: started.pid,
                call,
                piped,
            }),
            _ => Err(incomplete("started command")),
        }
    }
}

/// Command on the host. Dropping it before it has exited kills the command with everything it
/// started.
pub struct RemoteCommand {
    /// Its process id as the host sees it.
    pub pid: u32,
    call: CallHandle<Event>,
    piped: bool,
}

impl RemoteCommand {
    /// Returns the next event; `None` after `Exited`. A slow reader slows the command down and
    /// loses no output. `Unavailable` when the connection is lost.
    pub async fn next_event(&mut self) -> Result<Option<ExecEvent>> {
        loop {
            return Ok(Some(match self.call.next().await? {
                None => return Ok(None),
                Some(Event::Stdout(bytes)) => ExecEvent::Stdout(bytes),
                Some(Event::Stderr(bytes)) => ExecEvent::Stderr(bytes),
                Some(Event::Exited(exited)) => ExecEvent::Exited((*exited).try_into()?),
                Some(Event::Started(_) | Event::StdinTaken(_)) => continue,
            }));
        }
    }

    /// Returns a writer to stdin; `None` when the command was started without one.
    pub fn stdin(&self) -> Option<RemoteStdin> {
        self.piped.then(|| self.call.stdin())
    }

    /// Sends a signal to everything the command started.
    pub async fn signal(&self, signal: i32) -> Result<()> {
        self.control().signal(signal).await
    }

    /// Resizes its terminal. The call ends with an error when the command has no terminal.
    pub async fn resize(&self, size: TerminalSize) -> Result<()> {
        self.control().resize(size).await
    }

    /// Returns a handle for signals and sizes that is independent of the reader of events.
    pub fn control(&self) -> RemoteControl {
        self.call.control()
    }
}

impl fmt::Debug for RemoteCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCommand")
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

bidi_call!(
    ExecCall,
    v1::ExecRequest,
    v1::ExecResponseView<'static>,
    Request,
    Event
);
