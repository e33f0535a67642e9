//! Commands.

use std::collections::VecDeque;

use bytes::Bytes;
use connectrpc::{ConnectError, InboundStream, Response, ServiceResult, ServiceStream};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use sandbar_core::{Error, ErrorCode, ExecEvent, TerminalSize};
use sandbar_host::{RunningCommand, StdinHandle};
use sandbar_proto::v1::{self, exec_request::Request, exec_response::Event};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    failure::{failed, failed_in},
    service::Service,
    signal::known_signal,
};

/// Answers that may wait for a slow reader; beyond them the command itself is held back.
const QUEUE: usize = 4;

/// Stdin that may wait for a slow command before requests are no longer read. More than callers who count keep on the
/// way, so that their signals get through.
const STDIN_QUEUE: usize = 512 << 10;

type Answer = Result<v1::ExecResponse, ConnectError>;

impl Service {
    pub(crate) async fn run_command(
        &self,
        mut requests: InboundStream<v1::ExecRequest>,
    ) -> ServiceResult<ServiceStream<v1::ExecResponse>> {
        let first = requests.next().await.transpose()?.and_then(|message| message.to_owned_message().request);
        let Some(Request::Start(start)) = first else {
            return Err(failed(
                Error::invalid("request", "the first message is not `start`")
                    .with_hint("send `start` with `session_id` and `argv` first"),
            ));
        };
        let (id, spec) = start.unpack().map_err(failed)?;
        let command = self.host.exec(&id, spec).await.map_err(failed_in(&id))?;
        let (answers, stream) = mpsc::channel(QUEUE);
        let stdin = Stdin::new(command.stdin());
        let conversation = Conversation { command, requests, stdin, answers };
        // The command belongs to the answer: when the caller goes away, the answer is dropped and the command with it.
        let task = AbortOnDropHandle::new(tokio::spawn(conversation.run()));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream).map(move |answer| {
            let _owner = &task;
            answer
        }))))
    }
}

/// A command and its caller. Requests are served also while the caller is slow to read.
struct Conversation {
    command: RunningCommand,
    requests: InboundStream<v1::ExecRequest>,
    stdin: Stdin,
    answers: mpsc::Sender<Answer>,
}

impl Conversation {
    async fn run(mut self) {
        let started = v1::ExecStarted { pid: self.command.pid, ..Default::default() };
        let mut answer = Some(Ok(message(started)));
        let mut listening = true;
        loop {
            if answer.is_none() && self.stdin.taken > 0 {
                answer = Some(Ok(message(Event::StdinTaken(std::mem::take(&mut self.stdin.taken)))));
            }
            tokio::select! {
                () = self.answers.closed() => return,
                room = self.answers.reserve(), if answer.is_some() => {
                    let (Ok(room), Some(answer)) = (room, answer.take()) else { return };
                    let last = is_last(&answer);
                    room.send(answer);
                    if last {
                        return;
                    }
                }
                event = self.command.next_event(), if answer.is_none() => {
                    answer = Some(event.map(pack).ok_or_else(|| failed(Error::internal("the command vanished"))));
                }
                request = self.requests.next(), if listening && self.stdin.has_room() => {
                    let outcome = match request {
                        None => {
                            listening = false;
                            self.stdin.close();
                            Ok(())
                        }
                        Some(Err(error)) => Err(error),
                        Some(Ok(request)) => {
                            obey(&self.command, &mut self.stdin, request.to_owned_message().request).map_err(failed)
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

/// Bytes on their way to the command's stdin.
struct Stdin {
    /// `None` when the command was started without stdin.
    handle: Option<StdinHandle>,
    queue: VecDeque<Bytes>,
    queued: usize,
    writing: Option<BoxFuture<'static, usize>>,
    /// No more will come: the pipe is closed after the last byte.
    closing: bool,
    /// What the command has taken and the caller has not been told of.
    taken: u64,
}

impl Stdin {
    fn new(handle: Option<StdinHandle>) -> Self {
        Self { handle, queue: VecDeque::new(), queued: 0, writing: None, closing: false, taken: 0 }
    }

    fn push(&mut self, bytes: Bytes) -> Result<(), Error> {
        if self.handle.is_none() {
            return Err(
                Error::invalid("stdin", "the command was started without stdin").with_hint("set `stdin` in `start`")
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
            // A command that reads no more is like a closed pipe: what is written to it is lost.
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

fn obey(command: &RunningCommand, stdin: &mut Stdin, request: Option<Request>) -> Result<(), Error> {
    match request {
        Some(Request::Stdin(bytes)) => return stdin.push(bytes),
        Some(Request::CloseStdin(_)) => stdin.close(),
        Some(Request::Signal(signal)) => {
            let signal = known_signal(signal)?;
            // It fails when the command has just ended, and then its end is on the way.
            let _ = command.signal(signal);
        }
        Some(Request::Resize(size)) => match command.resize(TerminalSize::try_from(*size)?) {
            // It has just ended, and its end is on the way.
            Err(error) if error.code() == ErrorCode::ProcessNotFound => {}
            outcome => outcome?,
        },
        Some(Request::Start(_)) => {
            return Err(Error::invalid("request", "there is a second `start`").with_hint("start one command a call"));
        }
        None => {
            return Err(Error::invalid("request", "a message has no request this server knows")
                .with_hint("send `stdin`, `close_stdin`, `signal` or `resize`"));
        }
    }
    Ok(())
}

fn pack(event: ExecEvent) -> v1::ExecResponse {
    match event {
        ExecEvent::Stdout(bytes) => message(Event::Stdout(bytes)),
        ExecEvent::Stderr(bytes) => message(Event::Stderr(bytes)),
        ExecEvent::Exited(status) => message(v1::ExecExited::from(status)),
    }
}

fn message(event: impl Into<Event>) -> v1::ExecResponse {
    v1::ExecResponse { event: Some(event.into()), ..Default::default() }
}

fn is_last(answer: &Answer) -> bool {
    match answer {
        Ok(answer) => matches!(answer.event, Some(Event::Exited(_))),
        Err(_) => true,
    }
}
