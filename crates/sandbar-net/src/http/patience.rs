//! How long a connection may stay without doing anything.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, sleep_until},
};

/// How long the gateway waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For the rest of a request's head, once it began. HTTP/2 sends more than heads, so that this says nothing there.
    pub(super) head: Option<Duration>,
    /// For the next request.
    pub(super) idle: Duration,
}

/// Knows what a connection waits for, and since when.
#[derive(Debug)]
pub(super) struct Patience {
    limits: Limits,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    requests: usize,
    idle_since: Instant,
    head_since: Option<Instant>,
}

/// A request is being served.
#[derive(Debug)]
pub(super) struct Busy(Arc<Patience>);

impl Patience {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let state = State { requests: 0, idle_since: Instant::now(), head_since: None };
        Arc::new(Self { limits, state: Mutex::new(state), changed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        let mut state = self.state();
        state.requests += 1;
        state.head_since = None;
        Busy(Arc::clone(self))
    }

    fn bytes_came(&self) {
        let mut state = self.state();
        if state.requests == 0 && state.head_since.is_none() {
            state.head_since = Some(Instant::now());
            self.changed.notify_one();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let state = self.state();
        if state.requests > 0 {
            return None;
        }
        let for_head = state.head_since.zip(self.limits.head).map(|(since, limit)| since + limit);
        Some(for_head.unwrap_or(state.idle_since + self.limits.idle))
    }

    /// Ends when the connection has waited too long.
    pub(super) async fn end(&self) {
        loop {
            match self.deadline() {
                None => self.changed.notified().await,
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => {
                    tokio::select! {
                        () = sleep_until(deadline) => {}
                        () = self.changed.notified() => {}
                    }
                }
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        state.idle_since = Instant::now();
        self.0.changed.notify_one();
    }
}

/// A connection that tells when bytes come.
#[derive(Debug)]
pub(super) struct Watched<S> {
    pub(super) io: S,
    pub(super) patience: Arc<Patience>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.patience.bytes_came();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn a_head_that_began_must_end_soon_and_a_request_may_take_its_time() {
        let patience = Patience::new(Limits { head: Some(Duration::ZERO), idle: LONG });
        let busy = patience.busy();
        assert_eq!(patience.deadline(), None);
        patience.bytes_came();
        assert_eq!(patience.deadline(), None, "bytes of a body are no head");
        drop(busy);
        assert!(patience.deadline().unwrap() > Instant::now() + LONG / 2);
        patience.bytes_came();
        patience.end().await;
    }

    #[tokio::test]
    async fn a_connection_that_does_nothing_ends() {
        let patience = Patience::new(Limits { head: None, idle: Duration::from_millis(1) });
        let busy = patience.busy();
        let end = tokio::spawn({
            let patience = Arc::clone(&patience);
            async move { patience.end().await }
        });
        drop(busy);
        end.await.unwrap();
    }
}
