//! Both directions of a command's call, driven by one task.
//!
//! The task owns the call. It ends with the [`RemoteCommand`](crate::RemoteCommand) that owns it, and then nothing of the
//! call is left that could keep the command alive: a stream of which one half is still held is not given up by HTTP/2.

use std::sync::Arc;

use connectrpc::{
    ConnectError,
    client::{BidiRecvHalf, BidiSendHalf},
};
use sandbar_proto::v1::{self, exec_response::Event};
use tokio::sync::{Semaphore, mpsc};

use crate::transport::AnswerBody;

/// Stdin that may be on the way. The server always has room for it, so a signal never waits behind it.
pub(crate) const STDIN_WINDOW: usize = 256 << 10;

/// Events that may wait for a slow reader; beyond them the command itself is held back.
const EVENTS: usize = 4;

/// Requests that may wait to be sent.
const REQUESTS: usize = 4;

pub(crate) type Sender = BidiSendHalf<v1::ExecRequest>;
pub(crate) type Receiver = BidiRecvHalf<AnswerBody, v1::ExecResponseView<'static>>;

/// What the caller holds of a conversation.
pub(crate) struct Ends {
    pub(crate) events: mpsc::Receiver<Result<Event, ConnectError>>,
    pub(crate) requests: mpsc::Sender<v1::ExecRequest>,
    /// A permit is one byte of stdin that may be sent.
    pub(crate) stdin_window: Arc<Semaphore>,
}

pub(crate) struct Conversation {
    sender: Sender,
    receiver: Receiver,
    events: mpsc::Sender<Result<Event, ConnectError>>,
    requests: mpsc::Receiver<v1::ExecRequest>,
    stdin_window: Arc<Semaphore>,
}

impl Conversation {
    pub(crate) fn new(sender: Sender, receiver: Receiver) -> (Self, Ends) {
        let (event_sender, events) = mpsc::channel(EVENTS);
        let (requests, request_receiver) = mpsc::channel(REQUESTS);
        let stdin_window = Arc::new(Semaphore::new(STDIN_WINDOW));
        let ends = Ends { events, requests, stdin_window: stdin_window.clone() };
        (Self { sender, receiver, events: event_sender, requests: request_receiver, stdin_window }, ends)
    }

    pub(crate) async fn run(mut self) {
        let mut event = None;
        let mut talking = true;
        loop {
            tokio::select! {
                room = self.events.reserve(), if event.is_some() => {
                    let (Ok(room), Some(event)) = (room, event.take()) else { break };
                    let last = matches!(event, Err(_) | Ok(Event::Exited(_)));
                    room.send(event);
                    if last {
                        break;
                    }
                }
                message = self.receiver.message(), if event.is_none() => match message {
                    // The last event breaks the loop: a call that ends before it was cut off.
                    Ok(None) => event = Some(Err(ConnectError::unavailable("the call was cut off"))),
                    Err(error) => event = Some(Err(error)),
                    Ok(Some(message)) => match message.to_owned_message().event {
                        Some(Event::StdinTaken(bytes)) => self.widen(bytes),
                        // An event this client does not know comes from a newer server; the next one may be known.
                        known => event = known.map(Ok),
                    },
                },
                request = self.requests.recv(), if talking => match request {
                    // A send fails when the server has ended the call, and its reason is the next message.
                    Some(request) => talking = self.sender.send(request).await.is_ok(),
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

impl Drop for Conversation {
    /// However the call ends, nobody waits for room any longer.
    fn drop(&mut self) {
        self.stdin_window.close();
    }
}
