//! Commands that run on the other side.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use connectrpc::client::{BidiRecvHalf, BidiSendHalf, ClientTransport, SharedHttp2Connection};
use sandbar_core::{Error, ErrorCode, ExecEvent, ExecSpec, Result, SessionId, StdinMode};
use sandbar_proto::v1::{self, exec_request::Request, exec_response::Event};
use tokio::sync::Mutex;

use crate::{Client, client::incomplete};

/// Largest piece of stdin sent as one message.
const PIECE: usize = 256 << 10;

type Sender = BidiSendHalf<v1::ExecRequest>;
type Receiver = BidiRecvHalf<<SharedHttp2Connection as ClientTransport>::ResponseBody, v1::ExecResponseView<'static>>;

impl Client {
    /// Starts a command, and returns when it runs.
    pub async fn exec(&self, id: &SessionId, spec: ExecSpec) -> Result<RemoteCommand> {
        let piped = spec.stdin == StdinMode::Piped;
        let (mut sender, receiver) = self.once(self.rpc.exec()).await?.into_split();
        // This fails only when the server has ended the call, and then the first answer says why.
        let _ = sender.send(message(v1::ExecStart::new(id, spec))).await;
        let mut command = RemoteCommand {
            pid: 0,
            client: self.clone(),
            receiver,
            requests: Requests { sender: Arc::new(Mutex::new(sender)) },
            piped,
        };
        match command.receive().await? {
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
    receiver: Receiver,
    requests: Requests,
    piped: bool,
}

impl RemoteCommand {
    /// The next event; `None` after `Exited`. Reading slowly slows the command down, and loses nothing.
    pub async fn next_event(&mut self) -> Result<Option<ExecEvent>> {
        loop {
            return Ok(Some(match self.receive().await? {
                None => return Ok(None),
                Some(Event::Stdout(bytes)) => ExecEvent::Stdout(bytes),
                Some(Event::Stderr(bytes)) => ExecEvent::Stderr(bytes),
                Some(Event::Exited(exited)) => ExecEvent::Exited((*exited).try_into()?),
                Some(Event::Started(_)) => continue,
            }));
        }
    }

    /// A handle that feeds stdin; `None` when the command was started without one.
    pub fn stdin(&self) -> Option<RemoteStdin> {
        self.piped.then(|| RemoteStdin { requests: self.requests.clone() })
    }

    /// Sends a signal to everything the command started. It waits behind stdin that the command has not read yet;
    /// dropping the command does not.
    pub async fn signal(&self, signal: i32) -> Result<()> {
        self.requests.send(Request::Signal(signal)).await
    }

    /// A handle that sends signals while something else reads the events.
    pub fn signaller(&self) -> RemoteSignaller {
        RemoteSignaller { requests: self.requests.clone() }
    }

    async fn receive(&mut self) -> Result<Option<Event>> {
        while let Some(message) = self.client.once(self.receiver.message()).await? {
            // An event this client does not know comes from a newer server; the next one may be known.
            if let Some(event) = message.to_owned_message().event {
                return Ok(Some(event));
            }
        }
        Ok(None)
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
    requests: Requests,
}

impl RemoteStdin {
    /// Hands bytes to the command; waits while it is slow to read. `InvalidState` when it has ended.
    pub async fn write(&self, mut bytes: Bytes) -> Result<()> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            self.requests.send(Request::Stdin(piece)).await?;
        }
        Ok(())
    }

    /// Ends the input: the command reads what was written, then end of file.
    pub async fn close(&self) -> Result<()> {
        self.requests.send(v1::CloseStdin::default().into()).await
    }
}

/// Sends signals to a command. Clones signal the same command.
#[derive(Clone, Debug)]
pub struct RemoteSignaller {
    requests: Requests,
}

impl RemoteSignaller {
    /// See [`RemoteCommand::signal`].
    pub async fn signal(&self, signal: i32) -> Result<()> {
        self.requests.send(Request::Signal(signal)).await
    }
}

/// The request side of the call.
#[derive(Clone)]
struct Requests {
    sender: Arc<Mutex<Sender>>,
}

impl Requests {
    async fn send(&self, request: Request) -> Result<()> {
        self.sender.lock().await.send(message(request)).await.map_err(|source| {
            Error::new(ErrorCode::InvalidState, "the command has ended and takes no more input").with_source(source)
        })
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

fn message(request: impl Into<Request>) -> v1::ExecRequest {
    v1::ExecRequest { request: Some(request.into()), ..Default::default() }
}
