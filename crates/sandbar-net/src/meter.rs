//! Keeps the limits of a session's traffic, and counts it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sandbar_core::NetworkLimits;

use crate::{
    token_bucket::TokenBucket,
    traffic::{Direction, TrafficCounters},
};

/// Connections of a session at once, whatever its policy says: each costs the host descriptors.
const MOST_CONNECTIONS: u32 = 1024;

/// The longest wait for bytes before the limit is read again, so that a changed one counts soon.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The limits and counts of one session. All its connections share them.
#[derive(Debug)]
pub(crate) struct Meter {
    traffic: Arc<TrafficCounters>,
    /// Whether bytes are limited at all; without a limit nobody takes the lock to move some.
    limits_bytes: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bytes: Option<TokenBucket>,
    arrivals: Option<TokenBucket>,
    most_connections: u32,
    connections: u32,
}

impl Meter {
    pub(crate) fn new(limits: &NetworkLimits, traffic: Arc<TrafficCounters>) -> Self {
        let state = State { bytes: None, arrivals: None, most_connections: MOST_CONNECTIONS, connections: 0 };
        let meter = Self { traffic, limits_bytes: AtomicBool::new(false), state: Mutex::new(state) };
        meter.set_limits(limits);
        meter
    }

    /// New limits count at once, also for what is open already; nothing is closed because of them.
    pub(crate) fn set_limits(&self, limits: &NetworkLimits) {
        let now = Instant::now();
        let mut state = self.state();
        let bytes_per_second = limits.bytes_per_second.map(|bytes| bytes.0);
        state.bytes = TokenBucket::changed(state.bytes.take(), bytes_per_second, now);
        state.arrivals =
            TokenBucket::changed(state.arrivals.take(), limits.new_connections_per_second.map(u64::from), now);
        state.most_connections = limits.connections.unwrap_or(MOST_CONNECTIONS).min(MOST_CONNECTIONS);
        self.limits_bytes.store(state.bytes.is_some(), Relaxed);
    }

    /// A place for one more connection, or why there is none.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Place, String> {
        let mut state = self.state();
        if state.connections >= state.most_connections {
            return Err(format!("more than {} connections at once", state.most_connections));
        }
        if let Some(arrivals) = &mut state.arrivals
            && arrivals.take(1, Instant::now()).is_err()
        {
            return Err(format!("more than {} new connections a second", arrivals.rate()));
        }
        state.connections += 1;
        self.traffic.opened();
        Ok(Place { meter: Arc::clone(self) })
    }

    /// Takes up to `most` bytes from what may be moved now, or says how long to wait before asking again. What is not
    /// moved is to be [given back](Self::moved).
    pub(crate) fn reserve(&self, most: usize) -> Result<usize, Duration> {
        if !self.limits_bytes.load(Relaxed) {
            return Ok(most);
        }
        match &mut self.state().bytes {
            None => Ok(most),
            Some(bucket) => match bucket.take(most as u64, Instant::now()) {
                Ok(granted) => Ok(usize::try_from(granted).unwrap_or(most)),
                Err(wait) => Err(wait.min(LONGEST_WAIT)),
            },
        }
    }

    /// Like [`reserve`](Self::reserve), and waits.
    pub(crate) async fn reserved(&self, most: usize) -> usize {
        loop {
            match self.reserve(most) {
                Ok(granted) => return granted,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    /// Of `reserved` bytes, these were moved.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection among those of its session. It is open until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    meter: Arc<Meter>,
}

impl Drop for Place {
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
    fn a_place_is_free_again_when_its_connection_is_gone() {
        let limits = NetworkLimits { connections: Some(2), ..NetworkLimits::default() };
        let meter = meter(&limits);
        let (first, _second) = (meter.admit().unwrap(), meter.admit().unwrap());
        assert_eq!(meter.traffic.snapshot().connections, 2);
        assert_eq!(meter.admit().unwrap_err(), "more than 2 connections at once");
        drop(first);
        let _third = meter.admit().unwrap();
    }

    #[test]
    fn a_policy_without_limits_has_the_built_in_ceiling() {
        let meter = meter(&NetworkLimits::default());
        let places: Vec<_> = (0..MOST_CONNECTIONS).map(|_| meter.admit().unwrap()).collect();
        assert!(meter.admit().is_err());
        drop(places);
        assert_eq!(meter.traffic.snapshot().connections, 0);
        let more = NetworkLimits { connections: Some(1_000_000), ..NetworkLimits::default() };
        meter.set_limits(&more);
        assert_eq!(meter.state().most_connections, MOST_CONNECTIONS);
    }

    #[test]
    fn new_connections_are_counted_by_the_second() {
        let limits = NetworkLimits { new_connections_per_second: Some(1), ..NetworkLimits::default() };
        let meter = meter(&limits);
        drop(meter.admit().unwrap());
        // However slow the machine is, not every one of these takes a second.
        let refused = (0..100).find_map(|_| meter.admit().err());
        assert_eq!(refused.as_deref(), Some("more than 1 new connections a second"));
        meter.set_limits(&NetworkLimits::default());
        meter.admit().unwrap();
    }

    #[test]
    fn bytes_that_were_not_moved_can_be_taken_by_another() {
        let limits = NetworkLimits { bytes_per_second: Some(ByteCount(1)), ..NetworkLimits::default() };
        let meter = meter(&limits);
        assert_eq!(meter.reserve(1000), Ok(1));
        let wait = (0..100).find_map(|_| meter.reserve(1000).err());
        assert!(wait.is_some_and(|wait| wait <= LONGEST_WAIT));
        meter.moved(Direction::Sent, 1, 0);
        assert_eq!(meter.reserve(1000), Ok(1));
        meter.moved(Direction::Sent, 1, 1);
        assert_eq!(meter.traffic.snapshot().bytes_sent, 1);
        meter.set_limits(&NetworkLimits::default());
        assert_eq!(meter.reserve(1000), Ok(1000));
    }
}
