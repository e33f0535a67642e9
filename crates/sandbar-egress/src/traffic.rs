//! Traffic counters of a session.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sandbar_core::{NetworkTraffic, NetworkVerdict};

/// Traffic counters of one session. They outlive its box, so that a new box continues to count.
#[derive(Debug, Default)]
pub struct TrafficCounters {
    sent: AtomicU64,
    received: AtomicU64,
    connections: AtomicU64,
    allowed: AtomicU64,
    denied: AtomicU64,
}

/// Direction of bytes, seen from the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Sent,
    Received,
}

impl TrafficCounters {
    pub fn snapshot(&self) -> NetworkTraffic {
        NetworkTraffic {
            bytes_sent: self.sent.load(Relaxed),
            bytes_received: self.received.load(Relaxed),
            connections: self.connections.load(Relaxed),
            allowed: self.allowed.load(Relaxed),
            denied: self.denied.load(Relaxed),
        }
    }

    pub(crate) fn moved(&self, direction: Direction, bytes: usize) {
        let counter = match direction {
            Direction::Sent => &self.sent,
            Direction::Received => &self.received,
        };
        counter.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn decided(&self, verdict: NetworkVerdict) {
        let counter = match verdict {
            NetworkVerdict::Allow => &self.allowed,
            NetworkVerdict::Deny => &self.denied,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn opened(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }
}
