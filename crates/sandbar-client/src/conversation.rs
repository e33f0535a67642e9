//! Both directions of a call with something that runs, driven by one task.
//!
//! The task owns the call. It ends with the [`RemoteCommand`](crate::RemoteCommand) or
//! [`RemoteAttachment`](crate::RemoteAttachment) that owns it, and then nothing of the call is left that could keep a
//! command alive: a stream of which one half is still held is not given up by HTTP/2.

use std::sync::Arc;

use bytes::Bytes;
use connectrpc::ConnectError;
use sandbar_core::{Error, ErrorCode, Result, TerminalSize};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::AbortOnDropHandle;

use crate::Client;

/// Stdin that may be on the way. The server always has room for it, so a signal never waits behind it.
const STDIN_WINDOW: usize = 256 << 10;

/// Largest piece of stdin sent as one message.
const PIECE: usize = STDIN_WINDOW / 4;

/// Events that may wait for a slow reader; beyond them the other side is held back.
const EVENTS: usize = 4;

/// Requests that may wait to be sent.
const REQUESTS: usize = 4;

/// What is sent after the first message.
#[derive(Debug)]
pub(crate) enum Input {
    Stdin(Bytes),
    CloseStdin,
    Signal(i32),
    Resize(TerminalSize),
}

/// A call, in its own messages.
pub(crate) trait Call: Send + 'static {
    type Event: Send + 'static;

    fn send(&mut self, input: Input) -> impl Future<Output = Result<(), ConnectError>> + Send;

    /// The next message. Dropping the future loses nothing.
    fn receive(&mut self) -> impl Future<Output = Result<Option<Heard<Self::Event>>, ConnectError>> + Send;
}

/// A type that is a call: all of them take the same input and tell of the same ends, each in messages of its own.
macro_rules! call {
    ($call:ident, $message:ty, $answer:ty, $request:ident, $event:ident) => {
        struct $call {
            sender: connectrpc::client::BidiSendHalf<$message>,
            receiver: connectrpc::client::BidiRecvHalf<$crate::transport::AnswerBody, $answer>,
        }

        impl $call {
            fn message(request: impl Into<$request>) -> $message {
                let mut message = <$message>::default();
                message.request = Some(request.into());
                message
            }
        }

        impl $crate::conversation::Call for $call {
            type Event = $event;

            async fn send(&mut self, input: $crate::conversation::Input) -> Result<(), connectrpc::ConnectError> {
                use $crate::conversation::Input;
                let request = match input {
                    Input::Stdin(bytes) => $request::Stdin(bytes),
                    Input::CloseStdin => sandbar_proto::v1::CloseStdin::default().into(),
                    Input::Signal(signal) => $request::Signal(signal),
                    Input::Resize(size) => sandbar_proto::v1::TerminalSize::from(size).into(),
                };
                self.sender.send(Self::message(request)).await
            }

            async fn receive(
                &mut self,
            ) -> Result<Option<$crate::conversation::Heard<$event>>, connectrpc::ConnectError> {
                use $crate::conversation::Heard;
                let message = self.receiver.message().await?;
                Ok(message.map(|message| match message.to_owned_message().event {
                    Some($event::StdinTaken(bytes)) => Heard::StdinTaken(bytes),
                    Some(end @ $event::Exited(_)) => Heard::End(end),
                    Some(event) => Heard::Event(event),
                    None => Heard::Unknown,
                }))
            }
        }
    };
}
pub(crate) use call;

/// What a message is to the conversation.
pub(crate) enum Heard<E> {
    Event(E),
    /// The last one.
    End(E),
    StdinTaken(u64),
    /// An event this client does not know comes from a newer server; the next one may be known.
    Unknown,
}

/// What the caller holds of a conversation.
pub(crate) struct Ends<E> {
    client: Client,
    events: mpsc::Receiver<Result<E, ConnectError>>,
    requests: mpsc::Sender<Input>,
    /// A permit is one byte of stdin that may be sent.
    stdin_window: Arc<Semaphore>,
    _conversation: AbortOnDropHandle<()>,
}

impl<E: Send + 'static> Ends<E> {
    pub(crate) fn of(client: &Client, call: impl Call<Event = E>) -> Self {
        let (event_sender, events) = mpsc::channel(EVENTS);
        let (requests, request_receiver) = mpsc::channel(REQUESTS);
        let stdin_window = Arc::new(Semaphore::new(STDIN_WINDOW));
        let conversation = Conversation {
            call,
            events: event_sender,
            requests: request_receiver,
            stdin_window: Arc::clone(&stdin_window),
        };
        let conversation = AbortOnDropHandle::new(tokio::spawn(conversation.run()));
        Self { client: client.clone(), events, requests, stdin_window, _conversation: conversation }
    }

    /// The first event. The error is the host's own.
    pub(crate) async fn first(&mut self) -> Result<Option<E>> {
        self.events.recv().await.transpose().map_err(|error| self.client.restore(&error))
    }

    /// The next event; `None` after the last. `Unavailable` when the host went away meanwhile.
    pub(crate) async fn next(&mut self) -> Result<Option<E>> {
        self.events.recv().await.transpose().map_err(|error| self.broken_off(&error))
    }

    pub(crate) fn stdin(&self) -> RemoteStdin {
        RemoteStdin { requests: self.requests.clone(), window: Arc::clone(&self.stdin_window) }
    }

    pub(crate) fn control(&self) -> RemoteControl {
        RemoteControl { requests: self.requests.clone() }
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

struct Conversation<C: Call> {
    call: C,
    events: mpsc::Sender<Result<C::Event, ConnectError>>,
    requests: mpsc::Receiver<Input>,
    stdin_window: Arc<Semaphore>,
}

impl<C: Call> Conversation<C> {
    async fn run(mut self) {
        let mut event: Option<(Result<C::Event, ConnectError>, bool)> = None;
        let mut talking = true;
        loop {
            tokio::select! {
                room = self.events.reserve(), if event.is_some() => {
                    let (Ok(room), Some((event, last))) = (room, event.take()) else { break };
                    room.send(event);
                    if last {
                        break;
                    }
                }
                message = self.call.receive(), if event.is_none() => match message {
                    // The last event breaks the loop: a call that ends before it was cut off.
                    Ok(None) => event = Some((Err(ConnectError::unavailable("the call was cut off")), true)),
                    Err(error) => event = Some((Err(error), true)),
                    Ok(Some(Heard::StdinTaken(bytes))) => self.widen(bytes),
                    Ok(Some(Heard::Event(heard))) => event = Some((Ok(heard), false)),
                    Ok(Some(Heard::End(heard))) => event = Some((Ok(heard), true)),
                    Ok(Some(Heard::Unknown)) => {}
                },
                request = self.requests.recv(), if talking => match request {
                    // A send fails when the server has ended the call, and its reason is the next message.
                    Some(request) => talking = self.call.send(request).await.is_ok(),
                    None => talking = false,
                },
            }
        }
    }

    fn widen(&self, bytes: u64) {
        let room = STDIN_WINDOW.saturating_sub(self.stdin_window.available_permits());
        self.stdin_window.add_permits(usize::try_from(bytes).unwrap_or(room).min(room));
    }
}

impl<C: Call> Drop for Conversation<C> {
    /// However the call ends, nobody waits for room any longer.
    fn drop(&mut self) {
        self.stdin_window.close();
    }
}

/// Feeds the stdin of a command or process. Clones feed the same one.
#[derive(Clone, Debug)]
pub struct RemoteStdin {
    requests: mpsc::Sender<Input>,
    window: Arc<Semaphore>,
}

impl RemoteStdin {
    /// Hands bytes to the program; waits while it is slow to read. `InvalidState` when it has ended.
    pub async fn write(&self, mut bytes: Bytes) -> Result<()> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            // The piece is far below 4 GiB.
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            self.window.acquire_many(length).await.map_err(|_| has_ended())?.forget();
            send(&self.requests, Input::Stdin(piece)).await?;
        }
        Ok(())
    }

    /// Ends the input: the program reads what was written, then end of file.
    pub async fn close(&self) -> Result<()> {
        send(&self.requests, Input::CloseStdin).await
    }
}

/// Sends signals to a command or process, and sizes to its terminal. Clones reach the same one.
#[derive(Clone, Debug)]
pub struct RemoteControl {
    requests: mpsc::Sender<Input>,
}

impl RemoteControl {
    /// Sends a signal to everything the program started.
    pub async fn signal(&self, signal: i32) -> Result<()> {
        send(&self.requests, Input::Signal(signal)).await
    }

    /// Changes the size of its terminal. The call fails when the program was started without one.
    pub async fn resize(&self, size: TerminalSize) -> Result<()> {
        send(&self.requests, Input::Resize(size)).await
    }
}

async fn send(requests: &mpsc::Sender<Input>, input: Input) -> Result<()> {
    requests.send(input).await.map_err(|_| has_ended())
}

fn has_ended() -> Error {
    Error::new(ErrorCode::InvalidState, "the command has ended and takes no more input")
}
