//! How long a connection may keep the port waiting.
//!
//! hyper has one time-out for heads of requests, and it also ends connections that rest between two requests, without a
//! word. Clients keep such connections for minutes, and do not survive it; a head that was begun and does not go on has no
//! such excuse. So hyper gets a timer that knows whether anything came since it was set.

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

/// What an HTTP/2 connection begins with. From then on it is asked now and then whether it is still there.
const PREFACE_LENGTH: u64 = 24;

/// How long a connection may take for what it owes.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until a client and this port know each other by TLS.
    pub handshake: Duration,
    /// For the head of a request, from its first byte. A connection that says nothing at all has as long.
    pub head: Duration,
    /// Between two requests over HTTP/1.1. Longer than clients keep connections they do not use: one that is closed under
    /// them looks to their next request like a host that went away.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { handshake: Duration::from_secs(10), head: Duration::from_secs(30), idle: Duration::from_mins(11) }
    }
}

/// What came over a connection so far.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    bytes: AtomicU64,
    /// That it speaks HTTP/1 and heads are waited for.
    heads: AtomicBool,
}

impl Arrivals {
    /// Something came.
    pub(crate) fn count(&self, bytes: &[u8]) {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns when nothing has come in time that tells which HTTP a connection speaks; for any other connection never.
    pub(crate) async fn stay_away(&self, patience: Patience) {
        tokio::time::sleep(patience.head).await;
        if self.bytes() >= PREFACE_LENGTH || self.heads.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

/// The timer hyper waits for heads with, when its time-out for them is `Patience::idle`. It sets one when it begins to
/// wait for a head, and looks at it whenever it has read something and needs more.
#[derive(Clone, Debug)]
pub(crate) struct HeadTimer {
    patience: Patience,
    arrivals: Arc<Arrivals>,
}

impl HeadTimer {
    pub(crate) fn new(patience: Patience, arrivals: Arc<Arrivals>) -> Self {
        Self { patience, arrivals }
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let is_first = !self.arrivals.heads.swap(true, Ordering::Relaxed);
        let head = self.patience.head;
        // The first head has begun: its first bytes told which HTTP it is. What came together with the end of a request
        // counts as silence, since nobody here knows where that ended.
        let (stage, end) = if is_first {
            (Stage::Begun, Instant::now() + head)
        } else {
            (Stage::Silent { bytes: self.arrivals.bytes() }, deadline)
        };
        let sleep = Box::pin(tokio::time::sleep_until(end.into()));
        Box::pin(Head { arrivals: Arc::clone(&self.arrivals), once_begun: head, stage, sleep })
    }
}

/// The end of the patience with one head.
struct Head {
    arrivals: Arc<Arrivals>,
    once_begun: Duration,
    stage: Stage,
    sleep: Pin<Box<tokio::time::Sleep>>,
}

enum Stage {
    /// Nothing came since there were so many bytes.
    Silent {
        bytes: u64,
    },
    Begun,
}

impl Sleep for Head {}

impl Future for Head {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if matches!(self.stage, Stage::Silent { bytes } if bytes != self.arrivals.bytes()) {
            self.stage = Stage::Begun;
            let end = tokio::time::Instant::now() + self.once_begun;
            self.sleep.as_mut().reset(end);
        }
        self.sleep.as_mut().poll(context)
    }
}
