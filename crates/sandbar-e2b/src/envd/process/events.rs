//! The event stream of a command.

use std::time::Duration;

use bytes::Bytes;
use connectrpc::{ConnectError, RequestContext, ServiceStream};
use futures::{FutureExt as _, future::BoxFuture, stream};
use sandbar_core::AttachEvent;
use sandbar_host::Attachment;
use tokio::time::{Instant, sleep_until};

use super::end_event::end_event;
use crate::{
    envd::{Envd, abort::Abort},
    generated::process::{
        __buffa::oneof::process_event::{Event, data_event::Output},
        ProcessEvent,
        process_event::{DataEvent, KeepAlive, StartEvent},
    },
};

/// Header with the seconds between two keep-alive events.
const KEEPALIVE_HEADER: &str = "keepalive-ping-interval";
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(90);

/// Limits of the bytes in one event.
const MAX_CHUNK: usize = 32 * 1024;
const MAX_TERMINAL_CHUNK: usize = 16 * 1024;

/// One client that receives the events of a command.
pub(super) struct Listener {
    attachment: Attachment,
    pid: u32,
    limit: Limit,
    keepalive: Duration,
    /// Resolves when the sandbox is paused or the host stops.
    gone: BoxFuture<'static, ()>,
    abort: Abort,
}

/// Target of the timeout of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// The command, which is ended.
    Command,
    /// The stream only; the command goes on.
    Stream(Option<Instant>),
}

impl Listener {
    pub(super) fn new(
        envd: &Envd,
        context: &RequestContext,
        attachment: Attachment,
        pid: u32,
        limit: Limit,
    ) -> Self {
        let keepalive = context
            .header(KEEPALIVE_HEADER)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let keepalive = keepalive
            .filter(|seconds| *seconds > 0)
            .map_or(DEFAULT_KEEPALIVE, Duration::from_secs);
        let (paused, stopping) = (attachment.paused(), envd.shutdown.clone().cancelled_owned());
        let gone = async move {
            tokio::select! {
                () = paused => {}
                () = stopping => {}
            }
        };
        Self {
            attachment,
            pid,
            limit,
            keepalive,
            gone: gone.boxed(),
            abort: Abort::of(context),
        }
    }

    /// Returns the stream; `message` wraps each event in the response type of the call.
    pub(super) fn into_stream<M: Send + 'static>(
        self,
        message: impl Fn(ProcessEvent) -> M + Send + 'static,
    ) -> ServiceStream<M> {
        let first = Step::Start(self);
        Box::pin(stream::unfold((first, message), async |(step, message)| {
            let (event, step) = step.next().await?;
            let event = event.map(|event| {
                message(ProcessEvent {
                    event: Some(event),
                    ..Default::default()
                })
            });
            Some((event, (step, message)))
        }))
    }
}

/// State of the stream.
enum Step {
    Start(Listener),
    /// Running, with output that did not fit into the last event.
    Running(Listener, Option<Pending>),
    Ended,
}

/// Output that was not sent yet.
struct Pending {
    bytes: Bytes,
    output: fn(Bytes) -> Output,
}

impl Step {
    async fn next(self) -> Option<(Result<Event, ConnectError>, Self)> {
        let (mut listener, pending) = match self {
            Self::Start(listener) => {
                let start = StartEvent {
                    pid: listener.pid,
                    ..Default::default()
                };
                return Some((
                    Ok(Event::Start(start.into())),
                    Self::Running(listener, None),
                ));
            }
            Self::Running(listener, pending) => (listener, pending),
            Self::Ended => return None,
        };
        let received = match pending {
            Some(pending) => Received::Output(pending),
            None => listener.receive().await,
        };
        Some(match received {
            Received::Output(mut pending) => {
                let max = if listener.attachment.has_terminal() {
                    MAX_TERMINAL_CHUNK
                } else {
                    MAX_CHUNK
                };
                let bytes = pending.bytes.split_to(max.min(pending.bytes.len()));
                let data = DataEvent {
                    output: Some((pending.output)(bytes)),
                    ..Default::default()
                };
                let rest = (!pending.bytes.is_empty()).then_some(pending);
                (Ok(Event::Data(data.into())), Self::Running(listener, rest))
            }
            Received::Nothing => (
                Ok(Event::Keepalive(KeepAlive::default().into())),
                Self::Running(listener, None),
            ),
            Received::End(event) => (Ok(event), Self::Ended),
            Received::TimedOut => (
                Err(ConnectError::deadline_exceeded("context deadline exceeded")),
                Self::Ended,
            ),
        })
    }
}

/// Next item a listener received.
enum Received {
    Output(Pending),
    /// Nothing within the keep-alive interval.
    Nothing,
    End(Event),
    TimedOut,
}

impl Listener {
    async fn receive(&mut self) -> Received {
        let keepalive = Instant::now() + self.keepalive;
        let until = match self.limit {
            Limit::Stream(until) => until,
            Limit::Command => None,
        };
        loop {
            let event = tokio::select! {
                biased;
                event = self.attachment.next_event() => event,
                () = &mut self.gone => None,
                () = sleep_until(until.unwrap_or(keepalive)), if until.is_some() => return Received::TimedOut,
                () = sleep_until(keepalive) => return Received::Nothing,
            };
            let is_terminal = self.attachment.has_terminal();
            let (bytes, output): (_, fn(Bytes) -> Output) = match event {
                Some(AttachEvent::Stdout(bytes)) if is_terminal => (bytes, Output::Pty),
                Some(AttachEvent::Stdout(bytes)) => (bytes, Output::Stdout),
                Some(AttachEvent::Stderr(bytes)) => (bytes, Output::Stderr),
                // Cannot happen: attachments of envd never skip output.
                Some(AttachEvent::Missed { .. }) => continue,
                Some(AttachEvent::Exited(_)) if self.command_timed_out() => {
                    return Received::TimedOut;
                }
                Some(AttachEvent::Exited(exit)) if !self.attachment.was_stopped() => {
                    return Received::End(Event::End(end_event(&exit).into()));
                }
                // The sandbox is gone or paused: see `abort.rs`.
                Some(AttachEvent::Exited(_)) | None => match self.abort.now().await {},
            };
            return Received::Output(Pending { bytes, output });
        }
    }

    fn command_timed_out(&self) -> bool {
        matches!(self.limit, Limit::Command) && self.attachment.timed_out()
    }
}
