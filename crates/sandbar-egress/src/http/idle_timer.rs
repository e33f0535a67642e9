//! Timeouts of a client connection that is idle or sends its request headers slowly.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, ready},
    time::Duration,
};

use sandbar_core::MutexExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleLimits {
    /// For the rest of a request header section after its first byte. `None` for HTTP/2, where
    /// incoming bytes need not belong to a header section.
    pub(super) head: Option<Duration>,
    /// For the start of the next request.
    pub(super) idle: Duration,
}

/// Tracks whether a connection is idle, and since when.
#[derive(Debug)]
pub(super) struct IdleTimer {
    limits: IdleLimits,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    requests: usize,
    idle_since: Instant,
    head_since: Option<Instant>,
}

/// Guard of a request that is being served. The connection is not idle while one exists.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<IdleTimer>);

impl IdleTimer {
    pub(super) fn new(limits: IdleLimits) -> Arc<Self> {
        let state = State {
            requests: 0,
            idle_since: Instant::now(),
            head_since: None,
        };
        Arc::new(Self {
            limits,
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock_unpoisoned()
    }

    pub(super) fn start_request(self: &Arc<Self>) -> ActiveRequest {
        let mut state = self.state();
        state.requests += 1;
        state.head_since = None;
        ActiveRequest(Arc::clone(self))
    }

    fn on_bytes(&self) {
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
        let for_head = state
            .head_since
            .zip(self.limits.head)
            .map(|(since, limit)| since + limit);
        Some(for_head.unwrap_or(state.idle_since + self.limits.idle))
    }

    /// Waits until a timeout has passed.
    pub(super) async fn expired(&self) {
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

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        state.idle_since = Instant::now();
        self.0.changed.notify_one();
    }
}

/// Stream that notifies the timer about incoming bytes.
#[derive(Debug)]
pub(super) struct TimedIo<S> {
    pub(super) io: S,
    pub(super) timer: Arc<IdleTimer>,
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.timer.on_bytes();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
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
    async fn header_timeout_applies_only_between_requests() {
        let timer = IdleTimer::new(IdleLimits {
            head: Some(Duration::ZERO),
            idle: LONG,
        });
        let active = timer.start_request();
        assert_eq!(timer.deadline(), None);
        timer.on_bytes();
        assert_eq!(
            timer.deadline(),
            None,
            "body bytes do not start a header section"
        );
        drop(active);
        assert!(timer.deadline().unwrap() > Instant::now() + LONG / 2);
        timer.on_bytes();
        timer.expired().await;
    }

    #[tokio::test]
    async fn idle_connection_expires() {
        let timer = IdleTimer::new(IdleLimits {
            head: None,
            idle: Duration::from_millis(1),
        });
        let active = timer.start_request();
        let end = tokio::spawn({
            let timer = Arc::clone(&timer);
            async move { timer.expired().await }
        });
        drop(active);
        end.await.unwrap();
    }
}
