//! The event stream of `WatchDir`.

use std::time::Duration;

use connectrpc::{RequestContext, ServiceStream};
use futures::{StreamExt as _, stream};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use super::watch::{End, Watch};
use crate::{
    envd::abort::Abort,
    generated::filesystem::{
        __buffa::oneof::watch_dir_response::Event,
        FilesystemEvent, WatchDirResponse,
        watch_dir_response::{KeepAlive, StartEvent},
    },
};

/// Header with the seconds between two keep-alive events.
const KEEPALIVE_HEADER: &str = "keepalive-ping-interval";
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(90);

/// Events buffered for a slow client; the kernel queues the rest.
const MAX_BUFFERED_EVENTS: usize = 64;

/// Returns the events of a watch: `start` first, and a keep-alive if nothing happens.
pub(super) fn watch_stream(
    watch: Watch,
    context: &RequestContext,
) -> ServiceStream<WatchDirResponse> {
    let seconds = context
        .header(KEEPALIVE_HEADER)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let keepalive = seconds
        .filter(|seconds| *seconds > 0)
        .map_or(DEFAULT_KEEPALIVE, Duration::from_secs);
    let start = stream::iter([Ok(message(StartEvent::default()))]);
    let state = (Follower::new(watch), Abort::of(context));
    let rest = stream::unfold(state, move |(mut follower, abort)| async move {
        let event = match timeout(keepalive, follower.events.recv()).await {
            Err(_) => Ok(message(KeepAlive::default())),
            Ok(Some(Ok(event))) => Ok(message(event)),
            Ok(None | Some(Err(End::Directory))) => return None,
            Ok(Some(Err(End::Sandbox))) => match abort.now().await {},
            Ok(Some(Err(End::Failed(error)))) => Err(error),
        };
        Some((event, (follower, abort)))
    });
    Box::pin(start.chain(rest))
}

/// Reads a watch in a task of its own: [`Watch::next`] loses events if it is cancelled, as a
/// keep-alive timeout would do. Dropping this ends the task.
struct Follower {
    events: mpsc::Receiver<Result<FilesystemEvent, End>>,
    _task: AbortOnDropHandle<()>,
}

impl Follower {
    fn new(mut watch: Watch) -> Self {
        let (sender, events) = mpsc::channel(MAX_BUFFERED_EVENTS);
        #[expect(
            clippy::disallowed_methods,
            reason = "aborted when its owner is dropped"
        )]
        let task = tokio::spawn(async move {
            loop {
                let next = watch.next().await;
                let is_over = next.is_err();
                if sender.send(next).await.is_err() || is_over {
                    return;
                }
            }
        });
        Self {
            events,
            _task: AbortOnDropHandle::new(task),
        }
    }
}

fn message(event: impl Into<Event>) -> WatchDirResponse {
    WatchDirResponse {
        event: Some(event.into()),
        ..Default::default()
    }
}
