//! A call in both directions with something that runs: a command, or a process somebody is attached to.

use std::collections::VecDeque;

use bytes::Bytes;
use connectrpc::{ConnectError, HasMessageView, InboundStream, ServiceStream};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use sandbar_core::{Error, ErrorCode, Result, TerminalSize};
use sandbar_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;

use crate::{failure::failed, signal::known_signal};

/// Answers that may wait for a slow reader; beyond them the partner itself is held back.
const QUEUE: usize = 4;

/// Stdin that may wait for a slow program before requests are no longer read. More than callers who count keep on the
/// way, so that their signals get through.
const STDIN_QUEUE: usize = 512 << 10;

/// What a caller sends after its first message.
pub(crate) enum Input {
    Stdin(Bytes),
    CloseStdin,
    Signal(i32),
    Resize(Box<v1::TerminalSize>),
    /// The first message once more.
    First,
}

/// What runs, seen by its caller.
pub(crate) trait Partner: Sized + Send + Sync + 'static {
    type Request: HasMessageView + Send + 'static;
    type Answer: Send + 'static;
    type Stdin: Feed;

    /// Whether stdin ends with the request side of the call.
    const CLOSES_STDIN: bool;

    fn input(request: Self::Request) -> Option<Input>;

    /// `None` when it takes no stdin.
    fn stdin(&self) -> Option<Self::Stdin>;

    fn greeting(&self) -> Self::Answer;

    /// The next answer, and whether it is the last one. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<(Self::Answer, bool), ConnectError>> + Send;

    fn stdin_taken(bytes: u64) -> Self::Answer;

    fn signal(&self, signal: i32) -> impl Future<Output = Result<()>> + Send;

    fn resize(&self, size: TerminalSize) -> impl Future<Output = Result<()>> + Send;
}

/// Takes bytes for something that runs.
pub(crate) trait Feed: Clone + Send + Sync + 'static {
    fn write(&self, bytes: Bytes) -> impl Future<Output = Result<()>> + Send;
    fn close(&self);
}

/// The answers of a conversation. It belongs to them: when the caller goes away they are dropped, and the partner with
/// them.
pub(crate) fn converse<P: Partner>(partner: P, requests: InboundStream<P::Request>) -> ServiceStream<P::Answer> {
    let (answers, stream) = mpsc::channel(QUEUE);
    let stdin = Stdin::new(partner.stdin());
    let conversation = Conversation { partner, requests, stdin, answers };
    let task = AbortOnDropHandle::new(tokio::spawn(conversation.run()));
    Box::pin(ReceiverStream::new(stream).map(move |answer| {
        let _owner = &task;
        answer
    }))
}

/// A partner and its caller. Requests are served also while the caller is slow to read.
struct Conversation<P: Partner> {
    partner: P,
    requests: InboundStream<P::Request>,
    stdin: Stdin<P::Stdin>,
    answers: mpsc::Sender<Result<P::Answer, ConnectError>>,
}

impl<P: Partner> Conversation<P> {
    async fn run(mut self) {
        let mut answer = Some(Ok((self.partner.greeting(), false)));
        let mut listening = true;
        loop {
            if answer.is_none() && self.stdin.taken > 0 {
                answer = Some(Ok((P::stdin_taken(std::mem::take(&mut self.stdin.taken)), false)));
            }
            tokio::select! {
                () = self.answers.closed() => return,
                room = self.answers.reserve(), if answer.is_some() => {
                    let (Ok(room), Some(answer)) = (room, answer.take()) else { return };
                    match answer {
                        Ok((answer, false)) => room.send(Ok(answer)),
                        last => return room.send(last.map(|(answer, _)| answer)),
                    }
                }
                next = self.partner.next(), if answer.is_none() => answer = Some(next),
                request = self.requests.next(), if listening && self.stdin.has_room() => {
                    let outcome = match request {
                        None => {
                            listening = false;
                            if P::CLOSES_STDIN {
                                self.stdin.close();
                            }
                            Ok(())
                        }
                        Some(Err(error)) => Err(error),
                        Some(Ok(request)) => {
                            let input = P::input(request.to_owned_message());
                            obey(&self.partner, &mut self.stdin, input).await.map_err(failed)
                        }
                    };
                    if let Err(error) = outcome {
                        listening = false;
                        answer = Some(Err(error));
                    }
                }
                () = self.stdin.feed(), if self.stdin.has_work() => {}
            }
        }
    }
}

async fn obey<P: Partner>(partner: &P, stdin: &mut Stdin<P::Stdin>, input: Option<Input>) -> Result<()> {
    match input {
        Some(Input::Stdin(bytes)) => return stdin.push(bytes),
        Some(Input::CloseStdin) => stdin.close(),
        Some(Input::Signal(signal)) => partner.signal(known_signal(signal)?).await?,
        Some(Input::Resize(size)) => match partner.resize(TerminalSize::try_from(*size)?).await {
            // It has just ended, and its end is on the way.
            Err(error) if error.code() == ErrorCode::ProcessNotFound => {}
            outcome => outcome?,
        },
        Some(Input::First) => {
            return Err(Error::invalid("request", "the first message came a second time")
                .with_hint("make one call for each command or process"));
        }
        None => {
            return Err(Error::invalid("request", "a message has no request this server knows")
                .with_hint("send `stdin`, `close_stdin`, `signal` or `resize`"));
        }
    }
    Ok(())
}

/// Bytes on their way to a program's stdin.
struct Stdin<F> {
    /// `None` when the program was started without stdin.
    handle: Option<F>,
    queue: VecDeque<Bytes>,
    queued: usize,
    writing: Option<BoxFuture<'static, usize>>,
    /// No more will come: the pipe is closed after the last byte.
    closing: bool,
    /// What the program has taken and the caller has not been told of.
    taken: u64,
}

impl<F: Feed> Stdin<F> {
    fn new(handle: Option<F>) -> Self {
        Self { handle, queue: VecDeque::new(), queued: 0, writing: None, closing: false, taken: 0 }
    }

    fn push(&mut self, bytes: Bytes) -> Result<()> {
        if self.handle.is_none() {
            return Err(
                Error::invalid("stdin", "the program was started without stdin").with_hint("start it with `stdin`")
            );
        }
        if self.closing {
            return Err(Error::invalid("stdin", "stdin was already closed").with_hint("send `close_stdin` last"));
        }
        self.queued += bytes.len();
        self.queue.push_back(bytes);
        Ok(())
    }

    fn close(&mut self) {
        self.closing = true;
        self.close_when_empty();
    }

    fn close_when_empty(&self) {
        if let (true, false, Some(handle)) = (self.closing, self.has_work(), &self.handle) {
            handle.close();
        }
    }

    fn has_room(&self) -> bool {
        self.queued < STDIN_QUEUE
    }

    fn has_work(&self) -> bool {
        self.writing.is_some() || !self.queue.is_empty()
    }

    /// Hands over the next piece. Dropping the future loses nothing.
    async fn feed(&mut self) {
        if self.writing.is_none()
            && let (Some(handle), Some(bytes)) = (self.handle.clone(), self.queue.pop_front())
        {
            let length = bytes.len();
            // A program that reads no more is like a closed pipe: what is written to it is lost.
            self.writing = Some(async move { handle.write(bytes).await }.map(move |_| length).boxed());
        }
        if let Some(writing) = &mut self.writing {
            let length = writing.await;
            self.writing = None;
            self.queued -= length;
            self.taken += length as u64;
            self.close_when_empty();
        }
    }
}
