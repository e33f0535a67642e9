//! Commands that run on the other side.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use connectrpc::ConnectError;
use sandbar_core::{Error, ErrorCode, ExecEvent, ExecSpec, Result, SessionId, StdinMode, TerminalSize};
use sandbar_proto::v1::{self, exec_request::Request, exec_response::Event};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    Client,
    client::incomplete,
    conversation::{Conversation, Ends, STDIN_WINDOW},
};

/// Largest piece of stdin sent as one message.
const PIECE: usize = STDIN_WINDOW / 4;

impl Client {
    /// Starts a command, and returns when it runs.
    pub async fn exec(&self, id: &SessionId, spec: ExecSpec) -> Result<RemoteCommand> {
        let piped = spec.stdin == StdinMode::Piped;
        let (mut sender, receiver) = self.once(self.rpc.exec()).await?.into_split();
        // This fails only when the server has ended the call, and then the first answer says why.
        let _ = sender.send(message(v1::ExecStart::new(id, spec))).await;
        let (conversation, Ends { events, requests, stdin_window }) = Conversation::new(sender, receiver);
        let mut command = RemoteCommand {
            pid: 0,
            client: self.clone(),
            events,
            requests,
            stdin: piped.then_some(stdin_window),
            _conversation: AbortOnDropHandle::new(tokio::spawn(conversation.run())),
        };
        match command.receive().await.map_err(|error| self.restore(&error))? {
            Some(Event::Started(started)) => command.pid = started.pid,
            _ => return Err(incomplete("started command")),
        }
        Ok(command)
    }
}

/// A command on the other side. Dropping it before it has exited ends the command with everything it started.
pub struct RemoteCommand {
    /// Its process id as the host sees it.
    pub pid: u32,
    client: Client,
    events: mpsc::Receiver<Result<Event, ConnectError>>,
    requests: mpsc::Sender<v1::ExecRequest>,
    stdin: Option<Arc<Semaphore>>,
    _conversation: AbortOnDropHandle<()>,
}

impl RemoteCommand {
    /// The next event; `None` after `Exited`. Reading slowly slows the command down, and loses nothing. `Unavailable`
    /// when the host went away meanwhile.
    pub async fn next_event(&mut self) -> Result<Option<ExecEvent>> {
        loop {
            return Ok(Some(match self.receive().await.map_err(|error| self.broken_off(&error))? {
                None => return Ok(None),
                Some(Event::Stdout(bytes)) => ExecEvent::Stdout(bytes),
                Some(Event::Stderr(bytes)) => ExecEvent::Stderr(bytes),
                Some(Event::Exited(exited)) => ExecEvent::Exited((*exited).try_into()?),
                Some(Event::Started(_) | Event::StdinTaken(_)) => continue,
            }));
        }
    }

    /// A handle that feeds stdin; `None` when the command was started without one.
    pub fn stdin(&self) -> Option<RemoteStdin> {
        let window = self.stdin.clone()?;
        Some(RemoteStdin { requests: self.requests.clone(), window })
    }

    /// Sends a signal to everything the command started.
    pub async fn signal(&self, signal: i32) -> Result<()> {
        self.control().signal(signal).await
    }

    /// Changes the size of its terminal. The call fails when the command was started without one.
    pub async fn resize(&self, size: TerminalSize) -> Result<()> {
        self.control().resize(size).await
    }

    /// A handle that sends signals and sizes while something else reads the events.
    pub fn control(&self) -> RemoteControl {
        RemoteControl { requests: self.requests.clone() }
    }

    async fn receive(&mut self) -> Result<Option<Event>, ConnectError> {
        self.events.recv().await.transpose()
    }

    /// The host's error. One that the host did not raise itself means that it is gone.
    fn broken_off(&self, error: &ConnectError) -> Error {
        let restored = self.client.restore(error);
        if error.details.is_empty() && matches!(restored.code(), ErrorCode::Unavailable | ErrorCode::Internal) {
            let gone = format!("the host at {} went away before the command had ended", self.client.url());
            return Error::new(ErrorCode::Unavailable, gone)
                .with_hint("look at what the host says, then start it again; its sandboxes are kept");
        }
        restored
    }
}

impl fmt::Debug for RemoteCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCommand").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Feeds the stdin of a command. Clones feed the same command.
#[derive(Clone, Debug)]
pub struct RemoteStdin {
    requests: mpsc::Sender<v1::ExecRequest>,
    window: Arc<Semaphore>,
}

impl RemoteStdin {
    /// Hands bytes to the command; waits while it is slow to read. `InvalidState` when it has ended.
    pub async fn write(&self, mut bytes: Bytes) -> Result<()> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            // The piece is far below 4 GiB.
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            self.window.acquire_many(length).await.map_err(|_| has_ended())?.forget();
            send(&self.requests, Request::Stdin(piece)).await?;
        }
        Ok(())
    }

    /// Ends the input: the command reads what was written, then end of file.
    pub async fn close(&self) -> Result<()> {
        send(&self.requests, v1::CloseStdin::default().into()).await
    }
}

/// Sends signals to a command, and sizes to its terminal. Clones reach the same command.
#[derive(Clone, Debug)]
pub struct RemoteControl {
    requests: mpsc::Sender<v1::ExecRequest>,
}

impl RemoteControl {
    /// Sends a signal to everything the command started.
    pub async fn signal(&self, signal: i32) -> Result<()> {
        send(&self.requests, Request::Signal(signal)).await
    }

    /// Changes the size of its terminal. The call fails when the command was started without one.
    pub async fn resize(&self, size: TerminalSize) -> Result<()> {
        send(&self.requests, v1::TerminalSize::from(size).into()).await
    }
}

async fn send(requests: &mpsc::Sender<v1::ExecRequest>, request: Request) -> Result<()> {
    requests.send(message(request)).await.map_err(|_| has_ended())
}

fn message(request: impl Into<Request>) -> v1::ExecRequest {
    v1::ExecRequest { request: Some(request.into()), ..Default::default() }
}

fn has_ended() -> Error {
    Error::new(ErrorCode::InvalidState, "the command has ended and takes no more input")
}
