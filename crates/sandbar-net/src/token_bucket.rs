//! A limit on how much may happen in a second.

use std::time::{Duration, Instant};

/// Fills by `rate` a second up to a second's worth.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: u64,
    filled: u64,
    at: Instant,
}

/// A taker waits for this part of a second's worth, so that a crowd does not wake for a byte each.
const PARTS: u64 = 50;

impl TokenBucket {
    fn full(rate: u64, now: Instant) -> Self {
        Self { rate, filled: rate, at: now }
    }

    /// The bucket for a new rate. What was taken from the old one stays taken.
    pub(crate) fn changed(old: Option<Self>, rate: Option<u64>, now: Instant) -> Option<Self> {
        let rate = rate?;
        match old {
            None => Some(Self::full(rate, now)),
            Some(mut bucket) => {
                bucket.fill(now);
                Some(Self { rate, filled: bucket.filled.min(rate), at: bucket.at })
            }
        }
    }

    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Up to `most` of what is there, or how long it takes until there is something worth taking.
    pub(crate) fn take(&mut self, most: u64, now: Instant) -> Result<u64, Duration> {
        self.fill(now);
        let worth = most.min((self.rate / PARTS).max(1));
        if self.filled < worth {
            let missing = u128::from(worth - self.filled) * NANOS / u128::from(self.rate.max(1));
            return Err(Duration::from_nanos(u64::try_from(missing).unwrap_or(u64::MAX).saturating_add(1)));
        }
        let taken = most.min(self.filled);
        self.filled -= taken;
        Ok(taken)
    }

    pub(crate) fn give_back(&mut self, unused: u64) {
        self.filled = self.filled.saturating_add(unused).min(self.rate);
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_nanos();
        let grown = elapsed.saturating_mul(u128::from(self.rate)) / NANOS;
        if grown >= u128::from(self.rate - self.filled) {
            (self.filled, self.at) = (self.rate, now);
        } else if grown > 0 {
            // The time is moved on by what was given for it, so that fractions are neither lost nor won.
            let paid = (grown * NANOS).div_ceil(u128::from(self.rate));
            self.at += Duration::from_nanos(u64::try_from(paid).unwrap_or(u64::MAX));
            self.filled += u64::try_from(grown).unwrap_or(u64::MAX);
        }
    }
}

const NANOS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seconds_worth_comes_at_once_and_then_as_fast_as_it_fills() {
        let start = Instant::now();
        let mut bucket = TokenBucket::full(1000, start);
        assert_eq!(bucket.take(600, start), Ok(600));
        assert_eq!(bucket.take(600, start), Ok(400));
        let wait = bucket.take(600, start).unwrap_err();
        assert_eq!(wait, Duration::from_nanos(20_000_001));
        assert_eq!(bucket.take(600, start + Duration::from_millis(20)), Ok(20));
        assert_eq!(bucket.take(5, start + Duration::from_millis(25)), Ok(5));
    }

    #[test]
    fn over_any_time_no_more_is_taken_than_the_rate_and_one_second() {
        let start = Instant::now();
        let mut bucket = TokenBucket::full(3333, start);
        let (mut now, mut taken) = (start, 0);
        while now < start + Duration::from_secs(10) {
            match bucket.take(1500, now) {
                Ok(bytes) => taken += bytes,
                Err(wait) => now += wait,
            }
        }
        assert!((3333 * 10..=3333 * 11).contains(&taken), "{taken}");
    }

    #[test]
    fn a_new_rate_does_not_give_back_what_was_taken() {
        let start = Instant::now();
        let mut bucket = TokenBucket::full(1000, start);
        bucket.take(1000, start).unwrap();
        let mut faster = TokenBucket::changed(Some(bucket), Some(5000), start).unwrap();
        assert!(faster.take(1, start).is_err());
        assert!(TokenBucket::changed(Some(faster), None, start).is_none());
    }

    #[test]
    fn many_small_steps_of_time_fill_as_much_as_one_long_one() {
        let start = Instant::now();
        let mut bucket = TokenBucket::full(7, start);
        bucket.take(7, start).unwrap();
        for step in 1..=1001 {
            bucket.fill(start + Duration::from_millis(step));
        }
        assert_eq!(bucket.filled, 7);
    }
}
