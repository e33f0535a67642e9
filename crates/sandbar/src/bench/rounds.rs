//! Repeated measurements of an operation.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use sandbar_core::Result;

/// Time limit of a measurement; a round that has started is finished.
const MAX_DURATION: Duration = Duration::from_secs(4);

/// Rounds that are not counted: they fill caches and prepare boxes.
const WARM_UP_ROUNDS: usize = 2;

/// Reason why a measurement ended early.
#[derive(Debug)]
pub(crate) enum MeasureError {
    /// The user interrupted it.
    Stopped,
    Failed(sandbar_core::Error),
}

impl From<sandbar_core::Error> for MeasureError {
    fn from(error: sandbar_core::Error) -> Self {
        Self::Failed(error)
    }
}

/// Times of the rounds, sorted; never empty.
#[derive(Clone, Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        if times.is_empty() {
            None
        } else {
            Some(Self(times))
        }
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

/// Measures `work` up to `rounds` times. `work` returns the time that counts, without the cleanup
/// of the round. It is never cancelled in the middle, so that everything it creates is known.
pub(crate) async fn measure(
    rounds: usize,
    stop: &Cell<bool>,
    mut work: impl AsyncFnMut() -> Result<Duration>,
) -> Result<Times, MeasureError> {
    let started = Instant::now();
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds + WARM_UP_ROUNDS {
        if stop.get() {
            return Err(MeasureError::Stopped);
        }
        let time = work().await?;
        if round >= WARM_UP_ROUNDS {
            times.push(time);
        }
        if started.elapsed() > MAX_DURATION && !times.is_empty() {
            break;
        }
    }
    Times::new(times).ok_or(MeasureError::Stopped)
}

/// Measures a future.
pub(crate) async fn timed<T>(work: impl Future<Output = Result<T>>) -> Result<(T, Duration)> {
    let started = Instant::now();
    let done = work.await?;
    Ok((done, started.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_p95_are_taken_from_the_sorted_times() {
        let times = Times::new((1..=100).rev().map(Duration::from_millis).collect()).unwrap();
        assert_eq!(times.median(), Duration::from_millis(51));
        assert_eq!(times.p95(), Duration::from_millis(96));
        let one = Times::new(vec![Duration::from_millis(7)]).unwrap();
        assert_eq!(
            (one.median(), one.p95()),
            (Duration::from_millis(7), Duration::from_millis(7))
        );
        assert!(Times::new(Vec::new()).is_none());
    }

    #[tokio::test]
    async fn measurement_stops_between_two_rounds() {
        let stop = Cell::new(false);
        let mut rounds = 0;
        let ended = measure(100, &stop, async || {
            rounds += 1;
            stop.set(rounds == 5);
            Ok(Duration::from_millis(1))
        });
        assert!(matches!(ended.await, Err(MeasureError::Stopped)));
        assert_eq!(rounds, 5);
    }
}
