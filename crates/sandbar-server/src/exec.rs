//! Commands.

use connectrpc::{ConnectError, InboundStream, Response, ServiceResult, ServiceStream};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use sandbar_core::{Error, ExecEvent, StdinMode};
use sandbar_host::RunningCommand;
use sandbar_proto::v1::{self, exec_request::Request, exec_response::Event};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    failure::{failed, failed_in},
    service::Service,
};

/// Answers that may wait for a slow reader; beyond them the command itself is held back.
const QUEUE: usize = 4;

const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

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
        let piped = spec.stdin == StdinMode::Piped;
        let command = self.host.exec(&id, spec).await.map_err(failed_in(&id))?;
        let (answers, stream) = mpsc::channel(QUEUE);
        let conversation = Conversation { command, requests, piped, answers };
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
    piped: bool,
    answers: mpsc::Sender<Answer>,
}

impl Conversation {
    async fn run(mut self) {
        let started = v1::ExecStarted { pid: self.command.pid, ..Default::default() };
        let mut answer = Some(Ok(message(started)));
        let mut listening = true;
        // Stdin on its way to a command that is slow to read. Further requests wait behind it.
        let mut feeding: Option<BoxFuture<'static, ()>> = None;
        loop {
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
                request = self.requests.next(), if listening && feeding.is_none() => match request {
                    None => {
                        listening = false;
                        self.close_stdin();
                    }
                    Some(Err(error)) => {
                        listening = false;
                        answer = Some(Err(error));
                    }
                    Some(Ok(request)) => match self.obey(request.to_owned_message().request) {
                        Ok(write) => feeding = write,
                        Err(error) => {
                            listening = false;
                            answer = Some(Err(failed(error)));
                        }
                    },
                },
                () = async { if let Some(write) = &mut feeding { write.await } }, if feeding.is_some() => feeding = None,
            }
        }
    }

    /// Does what a request asks; what takes its time is returned to be waited for.
    fn obey(&self, request: Option<Request>) -> Result<Option<BoxFuture<'static, ()>>, Error> {
        match request {
            Some(Request::Stdin(bytes)) => {
                if !self.piped {
                    return Err(Error::invalid("stdin", "the command was started without stdin")
                        .with_hint("set `stdin` in `start`"));
                }
                // A command that reads no more is like a closed pipe: what is written to it is lost.
                Ok(self.command.stdin().map(|stdin| async move { stdin.write(bytes).await }.map(drop).boxed()))
            }
            Some(Request::CloseStdin(_)) => {
                self.close_stdin();
                Ok(None)
            }
            Some(Request::Signal(signal)) if SIGNALS.contains(&signal) => {
                // It fails when the command has just ended, and then its end is on the way.
                let _ = self.command.signal(signal);
                Ok(None)
            }
            Some(Request::Signal(signal)) => Err(Error::invalid("signal", format!("there is no signal {signal}"))
                .with_hint("use the number of a signal: 2 for SIGINT, 9 for SIGKILL, 15 for SIGTERM")),
            Some(Request::Start(_)) => {
                Err(Error::invalid("request", "there is a second `start`").with_hint("start one command a call"))
            }
            None => Err(Error::invalid("request", "a message has no request this server knows")
                .with_hint("send `stdin`, `close_stdin` or `signal`")),
        }
    }

    fn close_stdin(&self) {
        if let Some(stdin) = self.command.stdin() {
            stdin.close();
        }
    }
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
    !matches!(answer, Ok(v1::ExecResponse { event: Some(Event::Started(_) | Event::Stdout(_) | Event::Stderr(_)), .. }))
}
