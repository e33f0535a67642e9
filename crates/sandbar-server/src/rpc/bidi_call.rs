//! Bidirectional calls that connect a caller with a running program: `Exec` and `AttachProcess`.

use bytes::Bytes;
use connectrpc::{ConnectError, HasMessageView, InboundStream, ServiceStream};
use futures::StreamExt as _;
use sandbar_core::{Error, ErrorCode, Result, TerminalSize, signal};
use sandbar_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;

use super::{
    errors::failed,
    stdin_queue::{StdinQueue, StdinSink},
};

/// Responses queued for a slow reader. When the queue is full, back-pressure reaches the program.
const RESPONSE_QUEUE: usize = 4;

/// Content of a request after the first one.
pub(crate) enum Input {
    Stdin(Bytes),
    CloseStdin,
    Signal(i32),
    Resize(Box<v1::TerminalSize>),
    /// A second start message, which is an error.
    First,
}

/// Running program, in the messages of its RPC.
pub(crate) trait Program: Sized + Send + Sync + 'static {
    type Request: HasMessageView + Send + 'static;
    type Response: Send + 'static;
    type Stdin: StdinSink;

    /// Whether stdin is closed when the request stream ends.
    const CLOSES_STDIN: bool;

    fn input(request: Self::Request) -> Option<Input>;

    /// Returns `None` when the program was started without stdin.
    fn stdin(&self) -> Option<Self::Stdin>;

    fn first_response(&self) -> Self::Response;

    /// Returns the next response, and whether it is the last one. Cancel-safe.
    fn next(&mut self)
    -> impl Future<Output = Result<(Self::Response, bool), ConnectError>> + Send;

    fn stdin_taken(bytes: u64) -> Self::Response;

    fn signal(&self, signal: i32) -> impl Future<Output = Result<()>> + Send;

    fn resize(&self, size: TerminalSize) -> impl Future<Output = Result<()>> + Send;
}

/// Runs a bidirectional call and returns its responses. The stream owns the task of the call: when
/// the caller disconnects, the stream is dropped, and with it the task and the program.
pub(crate) fn run_bidi_call<P: Program>(
    program: P,
    requests: InboundStream<P::Request>,
) -> ServiceStream<P::Response> {
    let (responses, stream) = mpsc::channel(RESPONSE_QUEUE);
    let stdin = StdinQueue::new(program.stdin());
    let call = BidiCall {
        program,
        requests,
        stdin,
        responses,
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "aborted when its owner is dropped"
    )]
    let task = AbortOnDropHandle::new(tokio::spawn(call.run()));
    Box::pin(ReceiverStream::new(stream).map(move |response| {
        let _owner = &task;
        response
    }))
}

/// One call. Requests are handled also while the caller is slow to read responses.
struct BidiCall<P: Program> {
    program: P,
    requests: InboundStream<P::Request>,
    stdin: StdinQueue<P::Stdin>,
    responses: mpsc::Sender<Result<P::Response, ConnectError>>,
}

impl<P: Program> BidiCall<P> {
    async fn run(mut self) {
        let mut response = Some(Ok((self.program.first_response(), false)));
        let mut receiving = true;
        loop {
            if response.is_none()
                && let Some(taken) = self.stdin.take_written()
            {
                response = Some(Ok((P::stdin_taken(taken), false)));
            }
            tokio::select! {
                () = self.responses.closed() => return,
                slot = self.responses.reserve(), if response.is_some() => {
                    let (Ok(slot), Some(response)) = (slot, response.take()) else { return };
                    match response {
                        Ok((response, false)) => slot.send(Ok(response)),
                        last => return slot.send(last.map(|(response, _)| response)),
                    }
                }
                next = self.program.next(), if response.is_none() => response = Some(next),
                request = self.requests.next(), if receiving && self.stdin.has_room() => {
                    let outcome = match request {
                        None => {
                            receiving = false;
                            if P::CLOSES_STDIN {
                                self.stdin.close();
                            }
                            Ok(())
                        }
                        Some(Err(error)) => Err(error),
                        Some(Ok(request)) => {
                            let input = P::input(request.to_owned_message());
                            apply(&self.program, &mut self.stdin, input).await.map_err(failed)
                        }
                    };
                    if let Err(error) = outcome {
                        receiving = false;
                        response = Some(Err(error));
                    }
                }
                () = self.stdin.write_next(), if self.stdin.has_work() => {}
            }
        }
    }
}

async fn apply<P: Program>(
    program: &P,
    stdin: &mut StdinQueue<P::Stdin>,
    input: Option<Input>,
) -> Result<()> {
    match input {
        Some(Input::Stdin(bytes)) => return stdin.push(bytes),
        Some(Input::CloseStdin) => stdin.close(),
        Some(Input::Signal(signal)) => program.signal(signal::check(signal)?).await?,
        Some(Input::Resize(size)) => match program.resize(TerminalSize::try_from(*size)?).await {
            // The program has just exited, and the exit event follows.
            Err(error) if error.code() == ErrorCode::ProcessNotFound => {}
            outcome => outcome?,
        },
        Some(Input::First) => {
            return Err(
                Error::invalid("request", "stream has a second start message")
                    .with_hint("make one call for each command or process"),
            );
        }
        None => {
            return Err(
                Error::invalid("request", "message has no request that this server knows")
                    .with_hint("send `stdin`, `close_stdin`, `signal` or `resize`"),
            );
        }
    }
    Ok(())
}
