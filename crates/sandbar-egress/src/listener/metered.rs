//! A client's connection for the HTTP engine: replays the bytes that were already read, and applies
//! the session's rate limit and counters.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use crate::{meter::Meter, traffic::Direction};

/// Largest reservation from the rate limit at a time.
const MAX_RESERVED_BYTES: usize = 64 * 1024;

/// Stream that counts reads as bytes sent by the session, and writes as bytes received by it.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    inner: S,
    prefix: Bytes,
    meter: Arc<Meter>,
    reading: Pause,
    writing: Pause,
}

impl<S> Metered<S> {
    /// Wraps `inner`. `prefix` was already read from it and is returned first.
    pub(crate) fn new(inner: S, prefix: impl Into<Bytes>, meter: Arc<Meter>) -> Self {
        Self {
            inner,
            prefix: prefix.into(),
            meter,
            reading: Pause::default(),
            writing: Pause::default(),
        }
    }
}

/// Delay until the rate limit has tokens.
#[derive(Debug, Default)]
struct Pause(Option<Pin<Box<Sleep>>>);

impl Pause {
    fn poll_reserve(
        &mut self,
        context: &mut Context<'_>,
        meter: &Meter,
        max: usize,
    ) -> Poll<usize> {
        loop {
            if let Some(sleep) = &mut self.0 {
                ready!(sleep.as_mut().poll(context));
                self.0 = None;
            }
            match meter.reserve(max) {
                Ok(reserved) => return Poll::Ready(reserved),
                Err(wait) => self.0 = Some(Box::pin(tokio::time::sleep(wait))),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let max = buffer.remaining().min(MAX_RESERVED_BYTES);
        if max == 0 {
            return Poll::Ready(Ok(()));
        }
        let reserved = ready!(this.reading.poll_reserve(context, &this.meter, max));
        if this.prefix.has_remaining() {
            let length = this.prefix.len().min(reserved);
            buffer.put_slice(&this.prefix.split_to(length));
            this.meter.moved(Direction::Sent, reserved, length);
            return Poll::Ready(Ok(()));
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(reserved));
        let result = Pin::new(&mut this.inner).poll_read(context, &mut part);
        let length = part.filled().len();
        this.meter.moved(Direction::Sent, reserved, length);
        buffer.advance(length);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let max = bytes.len().min(MAX_RESERVED_BYTES);
        if max == 0 {
            return Poll::Ready(Ok(0));
        }
        let reserved = ready!(this.writing.poll_reserve(context, &this.meter, max));
        let result = Pin::new(&mut this.inner).poll_write(context, &bytes[..reserved]);
        let written = if let Poll::Ready(Ok(written)) = result {
            written
        } else {
            0
        };
        this.meter.moved(Direction::Received, reserved, written);
        result
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use sandbar_core::{ByteCount, NetworkLimits};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::traffic::TrafficCounters;

    #[tokio::test]
    async fn prefix_is_read_first_and_counted() {
        let traffic = Arc::new(TrafficCounters::default());
        let meter = Arc::new(Meter::new(&NetworkLimits::default(), Arc::clone(&traffic)));
        let (mut box_side, gateway_side) = tokio::io::duplex(64);
        let mut metered = Metered::new(gateway_side, &b"GET /"[..], meter);
        box_side.write_all(b" HTTP/1.1").await.unwrap();
        let mut heard = [0; 14];
        metered.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"GET / HTTP/1.1");
        metered.write_all(b"200").await.unwrap();
        assert_eq!(
            (
                traffic.snapshot().bytes_sent,
                traffic.snapshot().bytes_received
            ),
            (14, 3)
        );
    }

    #[tokio::test]
    async fn write_over_the_rate_limit_waits() {
        let limits = NetworkLimits {
            bytes_per_second: Some(ByteCount(1000)),
            ..NetworkLimits::default()
        };
        let traffic = Arc::new(TrafficCounters::default());
        let meter = Arc::new(Meter::new(&limits, Arc::clone(&traffic)));
        let (box_side, gateway_side) = tokio::io::duplex(4096);
        let mut metered = Metered::new(gateway_side, Bytes::new(), Arc::clone(&meter));
        metered.write_all(&[1; 1000]).await.unwrap();
        let mut more = Box::pin(metered.write_all(&[2; 1000]));
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(more.as_mut().poll(&mut context).is_pending());
        meter.set_limits(&NetworkLimits::default());
        more.await.unwrap();
        assert_eq!(traffic.snapshot().bytes_received, 2000);
        drop(box_side);
    }
}
