//! Streams whose reader takes nothing.
//!
//! A stream is made as fast as its reader takes it: what fills it waits, and so does a command behind it. A reader that
//! takes nothing at all would hold that up for ever. So what is there to be taken must be taken in time, or the stream is
//! dropped, with the command, tool call, file or tree it belongs to. The reader finds an error where the stream broke off.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use connectrpc::ServiceStream;
use futures::{Stream, StreamExt as _};
use sandbar_core::{Error, ErrorCode};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::failure::failed;

/// The same stream, dropped when its reader takes nothing of it for `patience`.
pub(crate) fn with_patience<M: Send + 'static>(answers: ServiceStream<M>, patience: Duration) -> ServiceStream<M> {
    let offer = Arc::new(Offer(Mutex::new(Standing { since: Some(Instant::now()), reader: None })));
    let source = Arc::new(Mutex::new(Source::Open(answers)));
    let watch = watch(Arc::clone(&offer), Arc::downgrade(&source), patience);
    let watch = AbortOnDropHandle::new(tokio::spawn(watch));
    Box::pin(Patient { waker: Waker::from(Arc::clone(&offer)), offer, source, _watch: watch })
}

enum Source<M> {
    Open(ServiceStream<M>),
    /// Its reader was too slow, and does not know yet.
    GivenUp(Duration),
    Ended,
}

struct Patient<M> {
    source: Arc<Mutex<Source<M>>>,
    offer: Arc<Offer>,
    /// What the stream wakes.
    waker: Waker,
    _watch: AbortOnDropHandle<()>,
}

/// Whether something is there to be taken. A reader that waits for the stream is never slow.
struct Offer(Mutex<Standing>);

struct Standing {
    /// Since when nobody came for it.
    since: Option<Instant>,
    reader: Option<Waker>,
}

impl Offer {
    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Offer {
    /// The stream has something.
    fn wake(self: Arc<Self>) {
        let mut standing = self.lock();
        standing.since.get_or_insert_with(Instant::now);
        let reader = standing.reader.take();
        drop(standing);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<M: Send + 'static> Stream for Patient<M> {
    type Item = <ServiceStream<M> as Stream>::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Before the stream is asked: what it says from now on counts.
        *self.offer.lock() = Standing { since: None, reader: Some(context.waker().clone()) };
        let mut source = lock(&self.source);
        match &mut *source {
            Source::Open(answers) => {
                let answer = answers.poll_next_unpin(&mut Context::from_waker(&self.waker));
                match &answer {
                    // Whether there is more is known when the reader comes again, and a reader who can take more comes.
                    Poll::Ready(Some(_)) => self.offer.lock().since = Some(Instant::now()),
                    Poll::Ready(None) => *source = Source::Ended,
                    Poll::Pending => {}
                }
                answer
            }
            Source::GivenUp(patience) => {
                let error = too_slow(*patience);
                *source = Source::Ended;
                Poll::Ready(Some(Err(failed(error))))
            }
            Source::Ended => Poll::Ready(None),
        }
    }
}

/// Drops the stream when what it offers was not taken in time.
async fn watch<M>(offer: Arc<Offer>, source: Weak<Mutex<Source<M>>>, patience: Duration) {
    // What is offered after one look is too old at the next one at the earliest.
    let mut look = Instant::now() + patience;
    loop {
        sleep_until(look).await;
        let Some(source) = source.upgrade() else { return };
        let since = offer.lock().since;
        let now = Instant::now();
        look = since.unwrap_or(now) + patience;
        if look > now {
            continue;
        }
        let mut source = lock(&source);
        // The reader may have come while this task waited for the lock.
        if offer.lock().since != since {
            continue;
        }
        if let Source::Open(_) = &*source {
            tracing::info!(?patience, "a stream was ended: its reader took nothing");
            *source = Source::GivenUp(patience);
        }
        return;
    }
}

fn too_slow(patience: Duration) -> Error {
    Error::new(ErrorCode::SlowReader, format!("nothing of this stream was taken for {patience:?}"))
        .with_hint("read it as it comes, or raise `slow_reader_timeout`; what it belonged to was ended")
}

fn lock<M>(source: &Mutex<Source<M>>) -> MutexGuard<'_, Source<M>> {
    source.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use connectrpc::ConnectError;
    use futures::{FutureExt as _, stream};
    use tokio::sync::{mpsc, oneshot};
    use tokio_stream::wrappers::ReceiverStream;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    /// A stream of what is sent, and what tells when it was dropped.
    fn watched(patience: Duration) -> (mpsc::Sender<u8>, ServiceStream<u8>, oneshot::Receiver<()>) {
        let (sender, receiver) = mpsc::channel(1);
        let (owner, dropped) = oneshot::channel::<()>();
        let answers = ReceiverStream::new(receiver).map(move |item| {
            let _owner = &owner;
            Ok::<_, ConnectError>(item)
        });
        (sender, with_patience(Box::pin(answers), patience), dropped)
    }

    #[tokio::test]
    async fn what_is_not_taken_in_time_is_dropped_and_the_reader_is_told_once() {
        let (sender, mut answers, dropped) = watched(SHORT);
        sender.send(1).await.unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap(), 1);
        // The reader waited, and then something came for which it does not come.
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
    async fn a_reader_that_never_comes_is_slow() {
        let (_sender, _answers, dropped) = watched(SHORT);
        dropped.await.unwrap_err();
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_never_slow() {
        let (sender, mut answers, _dropped) = watched(SHORT);
        let reading = tokio::spawn(async move { answers.next().await });
        // Longer than any patience: another stream was given up twice meanwhile.
        for _ in 0..2 {
            let (_other, _answers, dropped) = watched(SHORT);
            dropped.await.unwrap_err();
        }
        sender.send(1).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap().unwrap(), 1);
    }

    #[tokio::test]
    async fn nothing_is_changed_of_a_stream_that_is_read() {
        let items: Vec<u8> = (0..100).collect();
        let source = stream::iter(items.clone())
            .map(Ok::<_, ConnectError>)
            .chain(stream::iter([Err(ConnectError::internal("its own"))]));
        let mut answers = with_patience(Box::pin(source), Duration::from_mins(1));
        for item in items {
            assert_eq!(answers.next().await.unwrap().unwrap(), item);
        }
        assert_eq!(answers.next().await.unwrap().unwrap_err().message.as_deref(), Some("its own"));
        assert!(answers.next().await.is_none());
    }
}
