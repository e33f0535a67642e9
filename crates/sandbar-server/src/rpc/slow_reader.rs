//! Timeout for response streams that are not read.
//!
//! Back-pressure of a slow reader reaches the producer of a stream, and the command behind it. A
//! reader that stops completely would block both forever. A stream with an item that is not read
//! within the timeout is therefore dropped, with the command, tool call, file or tree that it
//! belongs to. The reader finds an error at the end of the stream.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, Weak},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use connectrpc::ServiceStream;
use futures::{Stream, StreamExt as _};
use sandbar_core::{Error, ErrorCode, MutexExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::errors::failed;

/// Returns a stream that drops `inner` when an item of it is not read within `timeout`.
pub(crate) fn with_read_timeout<M: Send + 'static>(
    inner: ServiceStream<M>,
    timeout: Duration,
) -> ServiceStream<M> {
    let readiness = Arc::new(Readiness(Mutex::new(ReadyState {
        since: Some(Instant::now()),
        reader: None,
    })));
    let source = Arc::new(Mutex::new(Source::Open(inner)));
    let watchdog = watchdog(Arc::clone(&readiness), Arc::downgrade(&source), timeout);
    #[expect(
        clippy::disallowed_methods,
        reason = "aborted when its owner is dropped"
    )]
    let watchdog = AbortOnDropHandle::new(tokio::spawn(watchdog));
    Box::pin(TimedStream {
        waker: Waker::from(Arc::clone(&readiness)),
        readiness,
        source,
        _watchdog: watchdog,
    })
}

enum Source<M> {
    Open(ServiceStream<M>),
    /// Dropped after this timeout; the reader has not got the error yet.
    TimedOut(Duration),
    Ended,
}

struct TimedStream<M> {
    source: Arc<Mutex<Source<M>>>,
    readiness: Arc<Readiness>,
    /// Waker that the inner stream is polled with: it marks the stream ready.
    waker: Waker,
    _watchdog: AbortOnDropHandle<()>,
}

/// Whether the inner stream is ready and unread. A reader that waits for the stream is not slow.
struct Readiness(Mutex<ReadyState>);

struct ReadyState {
    /// Time since which the stream has been ready without a poll by the reader.
    since: Option<Instant>,
    reader: Option<Waker>,
}

impl Readiness {
    fn lock(&self) -> MutexGuard<'_, ReadyState> {
        self.0.lock_unpoisoned()
    }
}

impl Wake for Readiness {
    /// Marks the stream ready, and wakes the reader.
    fn wake(self: Arc<Self>) {
        let mut state = self.lock();
        state.since.get_or_insert_with(Instant::now);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<M: Send + 'static> Stream for TimedStream<M> {
    type Item = <ServiceStream<M> as Stream>::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Reset before the poll, so that a wake during the poll is not lost.
        *self.readiness.lock() = ReadyState {
            since: None,
            reader: Some(context.waker().clone()),
        };
        let mut source = lock(&self.source);
        match &mut *source {
            Source::Open(inner) => {
                let item = inner.poll_next_unpin(&mut Context::from_waker(&self.waker));
                match &item {
                    // More items may be ready; the next poll finds out. A reader with capacity
                    // polls again at once.
                    Poll::Ready(Some(_)) => self.readiness.lock().since = Some(Instant::now()),
                    Poll::Ready(None) => *source = Source::Ended,
                    Poll::Pending => {}
                }
                item
            }
            Source::TimedOut(timeout) => {
                let error = slow_reader(*timeout);
                *source = Source::Ended;
                Poll::Ready(Some(Err(failed(error))))
            }
            Source::Ended => Poll::Ready(None),
        }
    }
}

/// Drops the inner stream when it was ready and unread for `timeout`.
async fn watchdog<M>(readiness: Arc<Readiness>, source: Weak<Mutex<Source<M>>>, timeout: Duration) {
    // A stream that becomes ready after one check can time out at the next check at the earliest,
    // so one check per timeout is enough.
    let mut check = Instant::now() + timeout;
    loop {
        sleep_until(check).await;
        let Some(source) = source.upgrade() else {
            return;
        };
        let since = readiness.lock().since;
        let now = Instant::now();
        check = since.unwrap_or(now) + timeout;
        if check > now {
            continue;
        }
        let mut source = lock(&source);
        // The reader may have polled while this task waited for the lock.
        if readiness.lock().since != since {
            continue;
        }
        if let Source::Open(_) = &*source {
            tracing::info!(
                ?timeout,
                "response stream ended: not read within the timeout"
            );
            *source = Source::TimedOut(timeout);
        }
        return;
    }
}

fn slow_reader(timeout: Duration) -> Error {
    Error::new(
        ErrorCode::SlowReader,
        format!("stream was not read for {timeout:?} and has been ended, with its command or call"),
    )
    .with_hint("read the stream continuously, or raise `slow_reader_timeout`")
}

fn lock<M>(source: &Mutex<Source<M>>) -> MutexGuard<'_, Source<M>> {
    source.lock_unpoisoned()
}

#[cfg(test)]
mod tests {
    use connectrpc::ConnectError;
    use futures::{FutureExt as _, stream};
    use tokio::sync::{mpsc, oneshot};
    use tokio_stream::wrappers::ReceiverStream;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    /// Returns a sender, a stream of what it sends, and a receiver that errs when the inner stream
    /// is dropped.
    fn timed(timeout: Duration) -> (mpsc::Sender<u8>, ServiceStream<u8>, oneshot::Receiver<()>) {
        let (sender, receiver) = mpsc::channel(1);
        let (owner, dropped) = oneshot::channel::<()>();
        let inner = ReceiverStream::new(receiver).map(move |item| {
            let _owner = &owner;
            Ok::<_, ConnectError>(item)
        });
        (sender, with_read_timeout(Box::pin(inner), timeout), dropped)
    }

    #[tokio::test]
    async fn unread_item_ends_the_stream_with_one_error() {
        let (sender, mut answers, dropped) = timed(SHORT);
        sender.send(1).await.unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap(), 1);
        // The reader polled once, and does not poll again when the item arrives.
        assert!(answers.next().now_or_never().is_none());
        sender.send(2).await.unwrap();
        dropped.await.unwrap_err();
        assert!(sender.is_closed());
        let error = sandbar_proto::from_connect(&answers.next().await.unwrap().unwrap_err());
        assert_eq!(error.code(), ErrorCode::SlowReader);
        assert!(error.hint().unwrap().contains("slow_reader_timeout"));
        assert!(answers.next().await.is_none());
    }

    #[tokio::test]
    async fn stream_that_is_never_polled_times_out() {
        let (_sender, _answers, dropped) = timed(SHORT);
        dropped.await.unwrap_err();
    }

    #[tokio::test]
    async fn reader_that_waits_does_not_time_out() {
        let (sender, mut answers, _dropped) = timed(SHORT);
        let reading = tokio::spawn(async move { answers.next().await });
        // Longer than the timeout: two other streams time out meanwhile.
        for _ in 0..2 {
            let (_other, _answers, dropped) = timed(SHORT);
            dropped.await.unwrap_err();
        }
        sender.send(1).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap().unwrap(), 1);
    }

    #[tokio::test]
    async fn stream_that_is_read_is_passed_through() {
        let items: Vec<u8> = (0..100).collect();
        let source = stream::iter(items.clone())
            .map(Ok::<_, ConnectError>)
            .chain(stream::iter([Err(ConnectError::internal("its own"))]));
        let mut answers = with_read_timeout(Box::pin(source), Duration::from_mins(1));
        for item in items {
            assert_eq!(answers.next().await.unwrap().unwrap(), item);
        }
        assert_eq!(
            answers
                .next()
                .await
                .unwrap()
                .unwrap_err()
                .message
                .as_deref(),
            Some("its own")
        );
        assert!(answers.next().await.is_none());
    }
}
