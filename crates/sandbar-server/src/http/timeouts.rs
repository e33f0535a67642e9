//! Timeouts of connections.
//!
//! hyper has one timeout for request heads, and it applies to idle keep-alive connections as well.
//! Clients keep idle connections for minutes and fail when one is closed under them; a request head
//! that has begun must arrive much sooner. [`HeadTimer`] is therefore a timer for hyper that knows
//! whether bytes have arrived since it was set, and switches from the idle to the head timeout.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

/// Length of the HTTP/2 connection preface. After it, pings detect a dead connection.
const PREFACE_LENGTH: u64 = 24;

/// Timeouts of one connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionTimeouts {
    /// TLS handshake.
    pub handshake: Duration,
    /// Request head, from its first byte. Also the time until the first byte of a connection.
    pub head: Duration,
    /// Idle time between two HTTP/1.1 requests. Longer than clients pool idle connections: a
    /// request on a connection that was just closed looks to the client like a dead host.
    pub idle: Duration,
    /// Idle time of a connection that has shown no valid token, in HTTP/1.1 and HTTP/2.
    pub idle_without_token: Duration,
}

impl Default for ConnectionTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            idle: Duration::from_mins(11),
            idle_without_token: Duration::from_secs(10),
        }
    }
}

/// Counter of the bytes received on a connection.
#[derive(Debug, Default)]
pub(crate) struct ReceivedBytes {
    bytes: AtomicU64,
    /// Set once hyper waits for an HTTP/1 request head.
    is_http1: AtomicBool,
}

impl ReceivedBytes {
    pub(crate) fn count(&self, bytes: &[u8]) {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns when the bytes that tell HTTP/1 from HTTP/2 did not arrive within the head timeout;
    /// never for any other connection. hyper has no timeout before it knows the protocol.
    pub(crate) async fn protocol_timeout(&self, timeouts: ConnectionTimeouts) {
        tokio::time::sleep(timeouts.head).await;
        if self.bytes() >= PREFACE_LENGTH || self.is_http1.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

/// Timer for hyper's head timeout, which must be set to `ConnectionTimeouts::idle`. hyper starts a
/// sleep when it begins to wait for a head, and polls it whenever it has read bytes and needs more.
#[derive(Clone, Debug)]
pub(crate) struct HeadTimer {
    timeouts: ConnectionTimeouts,
    received: Arc<ReceivedBytes>,
}

impl HeadTimer {
    pub(crate) fn new(timeouts: ConnectionTimeouts, received: Arc<ReceivedBytes>) -> Self {
        Self { timeouts, received }
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let is_first = !self.received.is_http1.swap(true, Ordering::Relaxed);
        let head = self.timeouts.head;
        // The first head has begun: its first bytes told the protocol. Bytes of a pipelined head
        // that arrived with the end of the previous request count as idle, as the end of that
        // request is not visible here.
        let (stage, end) = if is_first {
            (Stage::Head, Instant::now() + head)
        } else {
            (
                Stage::Idle {
                    bytes: self.received.bytes(),
                },
                deadline,
            )
        };
        let sleep = Box::pin(tokio::time::sleep_until(end.into()));
        Box::pin(HeadSleep {
            received: Arc::clone(&self.received),
            head_timeout: head,
            stage,
            sleep,
        })
    }
}

/// Timeout of one request head.
struct HeadSleep {
    received: Arc<ReceivedBytes>,
    head_timeout: Duration,
    stage: Stage,
    sleep: Pin<Box<tokio::time::Sleep>>,
}

enum Stage {
    /// No byte of the head has arrived: the counter still is at `bytes`.
    Idle { bytes: u64 },
    /// The head has begun.
    Head,
}

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if matches!(self.stage, Stage::Idle { bytes } if bytes != self.received.bytes()) {
            self.stage = Stage::Head;
            let end = tokio::time::Instant::now() + self.head_timeout;
            self.sleep.as_mut().reset(end);
        }
        self.sleep.as_mut().poll(context)
    }
}
