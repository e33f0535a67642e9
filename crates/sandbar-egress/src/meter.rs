//! Rate limits, connection limits and counters of a session.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sandbar_core::{MutexExt as _, NetworkLimits};

use crate::{
    token_bucket::TokenBucket,
    traffic::{Direction, TrafficCounters},
};

/// Open connections of a session, whatever its policy says: each takes descriptors of the host.
const MAX_CONNECTIONS: u32 = 1024;

/// Longest wait for tokens before the limit is read again, so that a change takes effect soon.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// Limits and counters of one session, shared by its connections.
#[derive(Debug)]
pub(crate) struct Meter {
    traffic: Arc<TrafficCounters>,
    /// Whether bytes are limited. Without a limit, relays do not take the lock.
    limits_bytes: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bytes: Option<TokenBucket>,
    arrivals: Option<TokenBucket>,
    max_connections: u32,
    connections: u32,
}

impl Meter {
    pub(crate) fn new(limits: &NetworkLimits, traffic: Arc<TrafficCounters>) -> Self {
        let state = State {
            bytes: None,
            arrivals: None,
            max_connections: MAX_CONNECTIONS,
            connections: 0,
        };
        let meter = Self {
            traffic,
            limits_bytes: AtomicBool::new(false),
            state: Mutex::new(state),
        };
        meter.set_limits(limits);
        meter
    }

    /// Replaces the limits, also for open connections. Connections above a new limit stay open.
    pub(crate) fn set_limits(&self, limits: &NetworkLimits) {
        let now = Instant::now();
        let mut state = self.state();
        let bytes_per_second = limits.bytes_per_second.map(|bytes| bytes.0);
        state.bytes = TokenBucket::changed(state.bytes.take(), bytes_per_second, now);
        state.arrivals = TokenBucket::changed(
            state.arrivals.take(),
            limits.new_connections_per_second.map(u64::from),
            now,
        );
        state.max_connections = limits
            .connections
            .unwrap_or(MAX_CONNECTIONS)
            .min(MAX_CONNECTIONS);
        self.limits_bytes.store(state.bytes.is_some(), Relaxed);
    }

    /// Returns a permit for one more connection, or the reason why there is none.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<ConnectionPermit, String> {
        let mut state = self.state();
        if state.connections >= state.max_connections {
            return Err(format!(
                "more than {} connections at once",
                state.max_connections
            ));
        }
        if let Some(arrivals) = &mut state.arrivals
            && arrivals.take(1, Instant::now()).is_err()
        {
            return Err(format!(
                "more than {} new connections a second",
                arrivals.rate()
            ));
        }
        state.connections += 1;
        self.traffic.opened();
        Ok(ConnectionPermit {
            meter: Arc::clone(self),
        })
    }

    /// Reserves up to `max` bytes of the rate limit; `Err` is the time to wait before the next
    /// attempt. [`moved`](Self::moved) must be called with the bytes that were transferred.
    pub(crate) fn reserve(&self, max: usize) -> Result<usize, Duration> {
        if !self.limits_bytes.load(Relaxed) {
            return Ok(max);
        }
        match &mut self.state().bytes {
            None => Ok(max),
            Some(bucket) => match bucket.take(max as u64, Instant::now()) {
                Ok(granted) => Ok(usize::try_from(granted).unwrap_or(max)),
                Err(wait) => Err(wait.min(MAX_WAIT)),
            },
        }
    }

    /// Like [`reserve`](Self::reserve), but waits for tokens.
    pub(crate) async fn reserved(&self, max: usize) -> usize {
        loop {
            match self.reserve(max) {
                Ok(granted) => return granted,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    /// Counts the bytes that were transferred, and returns the unused part of a reservation.
    pub(crate) fn moved(&self, direction: Direction, reserved: usize, moved: usize) {
        self.traffic.moved(direction, moved);
        let unused = reserved.saturating_sub(moved);
        if unused > 0
            && self.limits_bytes.load(Relaxed)
            && let Some(bucket) = &mut self.state().bytes
        {
            bucket.give_back(unused as u64);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock_unpoisoned()
    }
}

/// One of the open connections of a session. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    meter: Arc<Meter>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.meter.state().connections -= 1;
        self.meter.traffic.closed();
    }
}

#[cfg(test)]
mod tests {
    use sandbar_core::ByteCount;

    use super::*;

    fn meter(limits: &NetworkLimits) -> Arc<Meter> {
        Arc::new(Meter::new(limits, Arc::default()))
    }

    #[test]
    fn dropped_connection_frees_its_slot() {
        let limits = NetworkLimits {
            connections: Some(2),
            ..NetworkLimits::default()
        };
        let meter = meter(&limits);
        let (first, _second) = (meter.admit().unwrap(), meter.admit().unwrap());
        assert_eq!(meter.traffic.snapshot().connections, 2);
        assert_eq!(
            meter.admit().unwrap_err(),
            "more than 2 connections at once"
        );
        drop(first);
        let _third = meter.admit().unwrap();
    }

    #[test]
    fn policy_without_limits_has_the_built_in_maximum() {
        let meter = meter(&NetworkLimits::default());
        let permits: Vec<_> = (0..MAX_CONNECTIONS)
            .map(|_| meter.admit().unwrap())
            .collect();
        assert!(meter.admit().is_err());
        drop(permits);
        assert_eq!(meter.traffic.snapshot().connections, 0);
        let more = NetworkLimits {
            connections: Some(1_000_000),
            ..NetworkLimits::default()
        };
        meter.set_limits(&more);
        assert_eq!(meter.state().max_connections, MAX_CONNECTIONS);
    }

    #[test]
    fn new_connections_are_rate_limited() {
        let limits = NetworkLimits {
            new_connections_per_second: Some(1),
            ..NetworkLimits::default()
        };
        let meter = meter(&limits);
        drop(meter.admit().unwrap());
        // Even on a slow machine, 100 calls take less than 100 seconds.
        let refused = (0..100).find_map(|_| meter.admit().err());
        assert_eq!(
            refused.as_deref(),
            Some("more than 1 new connections a second")
        );
        meter.set_limits(&NetworkLimits::default());
        meter.admit().unwrap();
    }

    #[test]
    fn unused_reservation_is_returned() {
        let limits = NetworkLimits {
            bytes_per_second: Some(ByteCount(1)),
            ..NetworkLimits::default()
        };
        let meter = meter(&limits);
        assert_eq!(meter.reserve(1000), Ok(1));
        let wait = (0..100).find_map(|_| meter.reserve(1000).err());
        assert!(wait.is_some_and(|wait| wait <= MAX_WAIT));
        meter.moved(Direction::Sent, 1, 0);
        assert_eq!(meter.reserve(1000), Ok(1));
        meter.moved(Direction::Sent, 1, 1);
        assert_eq!(meter.traffic.snapshot().bytes_sent, 1);
        meter.set_limits(&NetworkLimits::default());
        assert_eq!(meter.reserve(1000), Ok(1000));
    }
}
