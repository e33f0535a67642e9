//! Doing something again and again, and how long it took.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use sandbar_core::Result;

/// No measurement takes longer than this, unless one round does.
const BUDGET: Duration = Duration::from_secs(4);

/// Rounds that are not counted: caches fill, boxes are prepared.
const WARM_UP: usize = 2;

/// What ends a measurement early.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Somebody wants us to stop.
    Stopped,
    Failed(sandbar_core::Error),
}

impl From<sandbar_core::Error> for Ended {
    fn from(error: sandbar_core::Error) -> Self {
        Self::Failed(error)
    }
}

/// The times of some rounds, shortest first; never empty.
#[derive(Clone, Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        if times.is_empty() { None } else { Some(Self(times)) }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(50)
    }

    pub(crate) fn p95(&self) -> Duration {
        self.at(95)
    }

    fn at(&self, percent: usize) -> Duration {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }
}

/// Measures `work` up to so many times. `work` returns the time that counts, so that tidying up after a round does not. It
/// is never dropped half done: what it makes is known.
pub(crate) async fn measure(
    rounds: usize,
    stop: &Cell<bool>,
    mut work: impl AsyncFnMut() -> Result<Duration>,
) -> Result<Times, Ended> {
    let started = Instant::now();
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds + WARM_UP {
        if stop.get() {
            return Err(Ended::Stopped);
        }
        let time = work().await?;
        if round >= WARM_UP {
            times.push(time);
        }
        if started.elapsed() > BUDGET && !times.is_empty() {
            break;
        }
    }
    Times::new(times).ok_or(Ended::Stopped)
}

/// How long something takes.
pub(crate) async fn timed<T>(work: impl Future<Output = Result<T>>) -> Result<(T, Duration)> {
    let started = Instant::now();
    let done = work.await?;
    Ok((done, started.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_slow_end_are_picked_from_the_order() {
        let times = Times::new((1..=100).rev().map(Duration::from_millis).collect()).unwrap();
        assert_eq!(times.median(), Duration::from_millis(51));
        assert_eq!(times.p95(), Duration::from_millis(96));
        let one = Times::new(vec![Duration::from_millis(7)]).unwrap();
        assert_eq!((one.median(), one.p95()), (Duration::from_millis(7), Duration::from_millis(7)));
        assert!(Times::new(Vec::new()).is_none());
    }

    #[tokio::test]
    async fn a_measurement_stops_between_two_rounds() {
        let stop = Cell::new(false);
        let mut rounds = 0;
        let ended = measure(100, &stop, async || {
            rounds += 1;
            stop.set(rounds == 5);
            Ok(Duration::from_millis(1))
        });
        assert!(matches!(ended.await, Err(Ended::Stopped)));
        assert_eq!(rounds, 5);
    }
}
