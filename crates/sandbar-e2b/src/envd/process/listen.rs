//! What a command does, as a stream of events.

use std::time::Duration;

use bytes::Bytes;
use connectrpc::{ConnectError, RequestContext, ServiceStream};
use futures::{FutureExt as _, future::BoxFuture, stream};
use sandbar_core::AttachEvent;
use sandbar_host::Attachment;
use tokio::time::{Instant, sleep_until};

use super::end_event::end_event;
use crate::{
    envd::tear::Tear,
    generated::process::{
        __buffa::oneof::process_event::{Event, data_event::Output},
        ProcessEvent,
        process_event::{DataEvent, KeepAlive, StartEvent},
    },
    surface::Surface,
};

/// Seconds between two signs of life, when nothing else comes.
const KEEPALIVE: &str = "keepalive-ping-interval";
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(90);

/// The most bytes of one event, and of one of a terminal.
const CHUNK: usize = 32 * 1024;
const TERMINAL_CHUNK: usize = 16 * 1024;

/// Somebody who listens to a command.
pub(super) struct Listener {
    attachment: Attachment,
    pid: u32,
    limit: Limit,
    keepalive: Duration,
    /// The sandbox stands still, or its host stops.
    gone: BoxFuture<'static, ()>,
    tear: Tear,
}

/// Whose time may be up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// That of the command, which ends with it.
    OfCommand,
    /// That of who listens. The command goes on.
    OfListener(Option<Instant>),
}

impl Listener {
    pub(super) fn new(
        surface: &Surface,
        context: &RequestContext,
        attachment: Attachment,
        pid: u32,
        limit: Limit,
    ) -> Self {
        let keepalive = context.header(KEEPALIVE).and_then(|value| value.to_str().ok()?.parse().ok());
        let keepalive = keepalive.filter(|seconds| *seconds > 0).map_or(DEFAULT_KEEPALIVE, Duration::from_secs);
        let (paused, stopping) = (attachment.paused(), surface.shutdown.clone().cancelled_owned());
        let gone = async move {
            tokio::select! {
                () = paused => {}
                () = stopping => {}
            }
        };
        Self { attachment, pid, limit, keepalive, gone: gone.boxed(), tear: Tear::of(context) }
    }

    /// The events, each made into a message of the call.
    pub(super) fn into_stream<M: Send + 'static>(
        self,
        message: impl Fn(ProcessEvent) -> M + Send + 'static,
    ) -> ServiceStream<M> {
        let first = Turn::Start(self);
        Box::pin(stream::unfold((first, message), async |(turn, message)| {
            let (event, turn) = turn.take().await?;
            let event = event.map(|event| message(ProcessEvent { event: Some(event), ..Default::default() }));
            Some((event, (turn, message)))
        }))
    }
}

/// What comes next.
enum Turn {
    Start(Listener),
    /// The rest of something that was written, if any.
    Go(Listener, Option<Written>),
    Over,
}

/// Bytes that were not told yet, and what makes an event of them.
struct Written {
    bytes: Bytes,
    output: fn(Bytes) -> Output,
}

impl Turn {
    async fn take(self) -> Option<(Result<Event, ConnectError>, Self)> {
        let (mut listener, written) = match self {
            Self::Start(listener) => {
                let start = StartEvent { pid: listener.pid, ..Default::default() };
                return Some((Ok(Event::Start(start.into())), Self::Go(listener, None)));
            }
            Self::Go(listener, written) => (listener, written),
            Self::Over => return None,
        };
        let heard = match written {
            Some(written) => Heard::Written(written),
            None => listener.hear().await,
        };
        Some(match heard {
            Heard::Written(mut written) => {
                let most = if listener.attachment.has_terminal() { TERMINAL_CHUNK } else { CHUNK };
                let bytes = written.bytes.split_to(most.min(written.bytes.len()));
                let data = DataEvent { output: Some((written.output)(bytes)), ..Default::default() };
                let rest = (!written.bytes.is_empty()).then_some(written);
                (Ok(Event::Data(data.into())), Self::Go(listener, rest))
            }
            Heard::Silence => (Ok(Event::Keepalive(KeepAlive::default().into())), Self::Go(listener, None)),
            Heard::End(event) => (Ok(event), Self::Over),
            Heard::Late => (Err(ConnectError::deadline_exceeded("context deadline exceeded")), Self::Over),
        })
    }
}

/// What a listener hears.
enum Heard {
    Written(Written),
    /// Nothing, for a while.
    Silence,
    End(Event),
    /// The time is up.
    Late,
}

impl Listener {
    async fn hear(&mut self) -> Heard {
        let silence = Instant::now() + self.keepalive;
        let until = match self.limit {
            Limit::OfListener(until) => until,
            Limit::OfCommand => None,
        };
        loop {
            let event = tokio::select! {
                biased;
                event = self.attachment.next_event() => event,
                () = &mut self.gone => None,
                () = sleep_until(until.unwrap_or(silence)), if until.is_some() => return Heard::Late,
                () = sleep_until(silence) => return Heard::Silence,
            };
            let is_terminal = self.attachment.has_terminal();
            let (bytes, output): (_, fn(Bytes) -> Output) = match event {
                Some(AttachEvent::Stdout(bytes)) if is_terminal => (bytes, Output::Pty),
                Some(AttachEvent::Stdout(bytes)) => (bytes, Output::Stdout),
                Some(AttachEvent::Stderr(bytes)) => (bytes, Output::Stderr),
                // Nothing is missed from where a listener begins.
                Some(AttachEvent::Missed { .. }) => continue,
                Some(AttachEvent::Exited(_)) if self.has_run_out_of_time() => return Heard::Late,
                Some(AttachEvent::Exited(exit)) if !self.attachment.was_stopped() => {
                    return Heard::End(Event::End(end_event(&exit).into()));
                }
                // As where the sandbox is a machine of its own: whatever happens to that breaks its connections.
                Some(AttachEvent::Exited(_)) | None => match self.tear.now().await {},
            };
            return Heard::Written(Written { bytes, output });
        }
    }

    fn has_run_out_of_time(&self) -> bool {
        matches!(self.limit, Limit::OfCommand) && self.attachment.timed_out()
    }
}
