//! Bidirectional calls (`Exec` and `AttachProcess`), each driven by one task.
//!
//! The task owns both halves of the call, and the [`RemoteCommand`](crate::RemoteCommand) or
//! [`RemoteAttachment`](crate::RemoteAttachment) owns the task. When it is dropped, both halves
//! are: HTTP/2 resets a stream only when neither half is held, and a stream that stays open would
//! keep its command alive.

use std::sync::Arc;

use bytes::Bytes;
use connectrpc::ConnectError;
use sandbar_core::{Error, ErrorCode, Result, TerminalSize};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::AbortOnDropHandle;

use crate::Client;

/// Stdin bytes in flight. The server always has room for them, so that a signal is never queued
/// behind stdin that the program does not read.
const STDIN_WINDOW: usize = 256 << 10;

/// Largest chunk of stdin in one message.
const MAX_CHUNK_BYTES: usize = STDIN_WINDOW / 4;

/// Events queued for a slow reader. When the queue is full, back-pressure reaches the host.
const EVENT_QUEUE: usize = 4;

/// Requests queued for sending.
const REQUEST_QUEUE: usize = 4;

/// Content of a request after the first one.
#[derive(Debug)]
pub(crate) enum Input {
    Stdin(Bytes),
    CloseStdin,
    Signal(i32),
    Resize(TerminalSize),
}

/// Bidirectional call, in the messages of its RPC.
pub(crate) trait BidiCall: Send + 'static {
    type Event: Send + 'static;

    fn send(&mut self, input: Input) -> impl Future<Output = Result<(), ConnectError>> + Send;

    /// Returns the next message. Cancel-safe.
    fn receive(
        &mut self,
    ) -> impl Future<Output = Result<Option<Received<Self::Event>>, ConnectError>> + Send;
}

/// Defines a type that implements [`BidiCall`] for one RPC. The RPCs have the same requests and
/// events in messages of different types.
macro_rules! bidi_call {
    ($call:ident, $message:ty, $answer:ty, $request:ident, $event:ident) => {
        struct $call {
            sender: connectrpc::client::BidiSendHalf<$message>,
            receiver: connectrpc::client::BidiRecvHalf<$crate::transport::ResponseBody, $answer>,
        }

        impl $call {
            fn message(request: impl Into<$request>) -> $message {
                let mut message = <$message>::default();
                message.request = Some(request.into());
                message
            }
        }

        impl $crate::bidi_call::BidiCall for $call {
            type Event = $event;

            async fn send(
                &mut self,
                input: $crate::bidi_call::Input,
            ) -> Result<(), connectrpc::ConnectError> {
                use $crate::bidi_call::Input;
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
            ) -> Result<Option<$crate::bidi_call::Received<$event>>, connectrpc::ConnectError> {
                use $crate::bidi_call::Received;
                let message = self.receiver.message().await?;
                Ok(
                    message.map(|message| match message.to_owned_message().event {
                        Some($event::StdinTaken(bytes)) => Received::StdinTaken(bytes),
                        Some(end @ $event::Exited(_)) => Received::End(end),
                        Some(event) => Received::Event(event),
                        None => Received::Unknown,
                    }),
                )
            }
        }
    };
}
pub(crate) use bidi_call;

/// Message from the host, as far as the call itself is concerned.
pub(crate) enum Received<E> {
    Event(E),
    /// The last event.
    End(E),
    StdinTaken(u64),
    /// Event of a newer server that this client does not know, and skips.
    Unknown,
}

/// Handle to a running bidirectional call. Dropping it ends the call.
pub(crate) struct CallHandle<E> {
    client: Client,
    events: mpsc::Receiver<Result<E, ConnectError>>,
    requests: mpsc::Sender<Input>,
    /// Send window of stdin: one permit is one byte.
    stdin_window: Arc<Semaphore>,
    _task: AbortOnDropHandle<()>,
}

impl<E: Send + 'static> CallHandle<E> {
    pub(crate) fn start(client: &Client, call: impl BidiCall<Event = E>) -> Self {
        let (event_sender, events) = mpsc::channel(EVENT_QUEUE);
        let (requests, request_receiver) = mpsc::channel(REQUEST_QUEUE);
        let stdin_window = Arc::new(Semaphore::new(STDIN_WINDOW));
        let driver = Driver {
            call,
            events: event_sender,
            requests: request_receiver,
            stdin_window: Arc::clone(&stdin_window),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "aborted when its owner is dropped"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(driver.run()));
        Self {
            client: client.clone(),
            events,
            requests,
            stdin_window,
            _task: task,
        }
    }

    /// Returns the first event, or the error with which the host rejected the call.
    pub(crate) async fn first(&mut self) -> Result<Option<E>> {
        self.events
            .recv()
            .await
            .transpose()
            .map_err(|error| self.client.restore(&error))
    }

    /// Returns the next event; `None` after the last. `Unavailable` when the connection is lost.
    pub(crate) async fn next(&mut self) -> Result<Option<E>> {
        self.events
            .recv()
            .await
            .transpose()
            .map_err(|error| self.restore_during_call(&error))
    }

    pub(crate) fn stdin(&self) -> RemoteStdin {
        RemoteStdin {
            requests: self.requests.clone(),
            window: Arc::clone(&self.stdin_window),
        }
    }

    pub(crate) fn control(&self) -> RemoteControl {
        RemoteControl {
            requests: self.requests.clone(),
        }
    }

    /// Restores the error of a running call. An error without our detail came from the transport,
    /// and means that the host is gone.
    fn restore_during_call(&self, error: &ConnectError) -> Error {
        let restored = self.client.restore(error);
        if error.details.is_empty()
            && matches!(
                restored.code(),
                ErrorCode::Unavailable | ErrorCode::Internal
            )
        {
            let gone = format!(
                "the host at {} went away before the command had ended",
                self.client.url()
            );
            return Error::new(ErrorCode::Unavailable, gone)
                .with_hint("check the log of the host and start it again; its sandboxes are kept");
        }
        restored
    }
}

/// Task of a call.
struct Driver<C: BidiCall> {
    call: C,
    events: mpsc::Sender<Result<C::Event, ConnectError>>,
    requests: mpsc::Receiver<Input>,
    stdin_window: Arc<Semaphore>,
}

impl<C: BidiCall> Driver<C> {
    async fn run(mut self) {
        let mut event: Option<(Result<C::Event, ConnectError>, bool)> = None;
        let mut sending = true;
        loop {
            tokio::select! {
                slot = self.events.reserve(), if event.is_some() => {
                    let (Ok(slot), Some((event, last))) = (slot, event.take()) else { break };
                    slot.send(event);
                    if last {
                        break;
                    }
                }
                message = self.call.receive(), if event.is_none() => match message {
                    // The loop ends at the last event, so an earlier end of the stream is an error.
                    Ok(None) => event = Some((Err(ConnectError::unavailable("the call was cut off")), true)),
                    Err(error) => event = Some((Err(error), true)),
                    Ok(Some(Received::StdinTaken(bytes))) => self.widen_window(bytes),
                    Ok(Some(Received::Event(received))) => event = Some((Ok(received), false)),
                    Ok(Some(Received::End(received))) => event = Some((Ok(received), true)),
                    Ok(Some(Received::Unknown)) => {}
                },
                request = self.requests.recv(), if sending => match request {
                    // A send fails when the server has ended the call; the next message has its
                    // error.
                    Some(request) => sending = self.call.send(request).await.is_ok(),
                    None => sending = false,
                },
            }
        }
    }

    /// Returns the bytes that the program has read to the send window.
    fn widen_window(&self, bytes: u64) {
        let room = STDIN_WINDOW.saturating_sub(self.stdin_window.available_permits());
        self.stdin_window
            .add_permits(usize::try_from(bytes).unwrap_or(room).min(room));
    }
}

impl<C: BidiCall> Drop for Driver<C> {
    /// Wakes writers that wait for the send window, however the call ended.
    fn drop(&mut self) {
        self.stdin_window.close();
    }
}

/// Writer to the stdin of a command or process. Clones write to the same stdin.
#[derive(Clone, Debug)]
pub struct RemoteStdin {
    requests: mpsc::Sender<Input>,
    window: Arc<Semaphore>,
}

impl RemoteStdin {
    /// Writes bytes, and waits while the program does not read. `InvalidState` when it has exited.
    pub async fn write(&self, mut bytes: Bytes) -> Result<()> {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(MAX_CHUNK_BYTES));
            // A chunk is far below 4 GiB.
            let length = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
            self.window
                .acquire_many(length)
                .await
                .map_err(|_| has_ended())?
                .forget();
            send(&self.requests, Input::Stdin(chunk)).await?;
        }
        Ok(())
    }

    /// Closes stdin: the program reads what was written, then end of file.
    pub async fn close(&self) -> Result<()> {
        send(&self.requests, Input::CloseStdin).await
    }
}

/// Sends signals and terminal sizes to a command or process. Clones control the same one.
#[derive(Clone, Debug)]
pub struct RemoteControl {
    requests: mpsc::Sender<Input>,
}

impl RemoteControl {
    /// Sends a signal to everything the program started.
    pub async fn signal(&self, signal: i32) -> Result<()> {
        send(&self.requests, Input::Signal(signal)).await
    }

    /// Resizes its terminal. The call ends with an error when the program has no terminal.
    pub async fn resize(&self, size: TerminalSize) -> Result<()> {
        send(&self.requests, Input::Resize(size)).await
    }
}

async fn send(requests: &mpsc::Sender<Input>, input: Input) -> Result<()> {
    requests.send(input).await.map_err(|_| has_ended())
}

fn has_ended() -> Error {
    Error::new(
        ErrorCode::InvalidState,
        "command has exited and accepts no more input",
    )
}
