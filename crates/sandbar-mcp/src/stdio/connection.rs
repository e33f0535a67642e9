//! One client on a pair of streams, from its first line to its last.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use sandbar_core::{Error, Result};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::lines::{LONGEST, Line, Lines};
use crate::{
    call_id::Conversation,
    in_flight::{InFlight, Ticket},
    jsonrpc::{self, Fault, Incoming, Message, Params, Refusal, Request, RequestId},
    server::{McpServer, Setting},
    version::Version,
};

/// Messages that may wait for a client that is slow to read.
const QUEUE: usize = 64;

/// Messages one batch may have.
const LARGEST_BATCH: usize = 100;

/// How long what was said last may take to get out. A client that reads nothing any more would keep us for ever.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long what is under way may still take once the client has said all it has to say: one that closes our input right
/// after its last request waits for the answer.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client has closed our input: it is done.
    InputClosed,
    /// The client no longer reads.
    OutputClosed,
    /// We were asked to stop.
    Stopped,
}

/// Serves one client until it closes the input, no longer reads, or `stop` is there. What is under way when it closes the
/// input is answered if that does not take long; otherwise it is cancelled.
pub async fn serve_stdio(
    server: McpServer,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: impl Future<Output = ()>,
) -> Result<Ended> {
    let (outgoing, messages) = mpsc::channel(QUEUE);
    let mut writer = tokio::spawn(write(messages, output));
    let connection = Arc::new(Connection {
        server,
        outgoing,
        version: Mutex::new(None),
        conversation: Conversation::new(),
        in_flight: InFlight::default(),
        closing: CancellationToken::new(),
    });
    let mut requests = JoinSet::new();
    let mut lines = Lines::new(BufReader::new(input), LONGEST);
    tokio::pin!(stop);
    let mut ended = loop {
        tokio::select! {
            () = &mut stop => break Ok(Ended::Stopped),
            _ = &mut writer => break Ok(Ended::OutputClosed),
            Some(_) = requests.join_next() => {}
            line = lines.next() => match line {
                // It may have to wait for a client that does not read.
                Ok(Some(line)) => tokio::select! {
                    () = &mut stop => break Ok(Ended::Stopped),
                    () = connection.hear(line, &mut requests) => {}
                },
                Ok(None) => break Ok(Ended::InputClosed),
                Err(error) => break Err(Error::io("could not read the client's messages", error)),
            },
        }
    };
    if matches!(ended, Ok(Ended::InputClosed)) {
        let answered = async { while requests.join_next().await.is_some() {} };
        tokio::select! {
            () = &mut stop => ended = Ok(Ended::Stopped),
            _ = &mut writer => ended = Ok(Ended::OutputClosed),
            // What is left is cancelled below.
            _ = timeout(LAST_ANSWERS, answered) => {}
        }
    }
    connection.closing.cancel();
    while requests.join_next().await.is_some() {}
    drop(connection);
    finish(writer).await;
    ended
}

/// Writes one message a line, as they come.
async fn write(mut messages: mpsc::Receiver<Value>, mut output: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.recv().await {
        let line = format!("{message}\n");
        if output.write_all(line.as_bytes()).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

async fn finish(mut writer: JoinHandle<()>) {
    if !writer.is_finished() && timeout(LAST_WORDS, &mut writer).await.is_err() {
        writer.abort();
    }
}

/// A request and its place among those under way.
type Admitted = (Arc<Request>, Ticket<RequestId>);

/// What is known of a client.
#[derive(Debug)]
struct Connection {
    server: McpServer,
    outgoing: mpsc::Sender<Value>,
    /// What was agreed on, once it was.
    version: Mutex<Option<Version>>,
    conversation: Conversation,
    in_flight: InFlight<RequestId>,
    closing: CancellationToken,
}

impl Connection {
    async fn hear(self: &Arc<Self>, line: Line, requests: &mut JoinSet<()>) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong => {
                let fault = Fault::new(Fault::PARSE, format!("the message is longer than {LONGEST} bytes"));
                return self.say(jsonrpc::failed(None, &fault)).await;
            }
        };
        if line.trim_ascii().is_empty() {
            return;
        }
        match jsonrpc::read(&line) {
            Incoming::One(Ok(message)) => self.take(message, requests).await,
            Incoming::One(Err(refusal)) => self.say(refusal.to_json()).await,
            Incoming::Batch(messages) => self.take_batch(messages, requests).await,
        }
    }

    async fn take(self: &Arc<Self>, message: Message, requests: &mut JoinSet<()>) {
        match message {
            // Before anything that comes after it is looked at.
            Message::Request(request) if request.method == "initialize" => {
                *self.version.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(McpServer::handshake(&request.params));
                let outcome = self.server.respond(&request, self.setting()).await;
                self.say(jsonrpc::answer(&request.id, &outcome)).await;
            }
            Message::Request(request) => match self.admit(request) {
                Ok(Some((request, ticket))) => {
                    let connection = Arc::clone(self);
                    requests.spawn(async move {
                        if let Some(answer) = connection.work(request, ticket).await {
                            connection.say(answer).await;
                        }
                    });
                }
                Ok(None) => {}
                Err(refusal) => self.say(refusal.to_json()).await,
            },
            Message::Notification { method, params } => self.note(&method, &params),
            Message::Response => {}
        }
    }

    /// Several messages at once, whose answers are sent at once.
    async fn take_batch(self: &Arc<Self>, messages: Vec<Result<Message, Refusal>>, requests: &mut JoinSet<()>) {
        let refused = if !self.version().has_batches() {
            Some("this version of the protocol has no batches")
        } else if messages.len() > LARGEST_BATCH {
            Some("the batch is too large")
        } else {
            None
        };
        if let Some(why) = refused {
            return self.say(jsonrpc::failed(None, &Fault::new(Fault::INVALID_REQUEST, why))).await;
        }
        let (mut answers, mut work) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                Ok(Message::Request(request)) => match self.admit(request) {
                    Ok(admitted) => work.extend(admitted),
                    Err(refusal) => answers.push(refusal.to_json()),
                },
                Ok(Message::Notification { method, params }) => self.note(&method, &params),
                Ok(Message::Response) => {}
                Err(refusal) => answers.push(refusal.to_json()),
            }
        }
        let connection = Arc::clone(self);
        requests.spawn(async move {
            let done = join_all(work.into_iter().map(|(request, ticket)| connection.work(request, ticket))).await;
            answers.extend(done.into_iter().flatten());
            if !answers.is_empty() {
                connection.say(answers.into()).await;
            }
        });
    }

    /// Gives a request its place. One that is sent again while it is under way is answered once.
    fn admit(&self, request: Request) -> Result<Option<Admitted>, Refusal> {
        match self.in_flight.find(&request.id) {
            Some(same) if *same == request => Ok(None),
            Some(_) => {
                let fault = Fault::new(Fault::INVALID_REQUEST, "another request with this id is under way");
                Err(Refusal { id: Some(request.id), fault })
            }
            None => {
                let request = Arc::new(request);
                let ticket = self.in_flight.enter(request.id.clone(), &request, &self.closing);
                Ok(Some((request, ticket)))
            }
        }
    }

    /// The answer to a request; none when it was cancelled.
    async fn work(&self, request: Arc<Request>, ticket: Ticket<RequestId>) -> Option<Value> {
        let outcome = ticket.unless_cancelled(self.server.respond(&request, self.setting())).await?;
        Some(jsonrpc::answer(&request.id, &outcome))
    }

    fn note(&self, method: &str, params: &Params) {
        if method == "notifications/cancelled"
            && let Some(id) = params.get("requestId").and_then(RequestId::read)
        {
            self.in_flight.cancel(&id);
        }
    }

    fn setting(&self) -> Setting<'_> {
        Setting { version: self.version(), conversation: Some(&self.conversation), outgoing: Some(&self.outgoing) }
    }

    fn version(&self) -> Version {
        let agreed = *self.version.lock().unwrap_or_else(PoisonError::into_inner);
        agreed.unwrap_or(Version::NEWEST_BY_HANDSHAKE)
    }

    async fn say(&self, message: Value) {
        tokio::select! {
            biased;
            // Nobody listens any more: the loop sees that by itself.
            _ = self.outgoing.send(message) => {}
            () = self.closing.cancelled() => {}
        }
    }
}
