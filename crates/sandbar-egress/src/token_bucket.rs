//! Token bucket rate limiter.

use std::time::{Duration, Instant};

/// Token bucket with a capacity of one second of `rate`.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: u64,
    filled: u64,
    at: Instant,
}

/// A caller waits until this fraction of a second's tokens is available, so that many waiters do
/// not wake up for one byte each.
const GRANTS_PER_SECOND: u64 = 50;

impl TokenBucket {
    fn full(rate: u64, now: Instant) -> Self {
        Self {
            rate,
            filled: rate,
            at: now,
        }
    }

    /// Returns the bucket for a new rate. Tokens that were taken from the old one stay taken.
    pub(crate) fn changed(old: Option<Self>, rate: Option<u64>, now: Instant) -> Option<Self> {
        let rate = rate?;
        match old {
            None => Some(Self::full(rate, now)),
            Some(mut bucket) => {
                bucket.fill(now);
                Some(Self {
                    rate,
                    filled: bucket.filled.min(rate),
                    at: bucket.at,
                })
            }
        }
    }

    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Takes up to `max` tokens; `Err` is the time until enough tokens are available.
    pub(crate) fn take(&mut self, max: u64, now: Instant) -> Result<u64, Duration> {
        self.fill(now);
        let wanted = max.min((self.rate / GRANTS_PER_SECOND).max(1));
        if self.filled < wanted {
            let missing = u128::from(wanted - self.filled) * NANOS / u128::from(self.rate.max(1));
            return Err(Duration::from_nanos(
                u64::try_from(missing).unwrap_or(u64::MAX).saturating_add(1),
            ));
        }
        let taken = max.min(self.filled);
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
            // Advances the time only by what the whole tokens are worth, so that fractions add up.
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
    fn full_bucket_grants_one_second_then_refills() {
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
    fn total_is_bounded_by_rate_plus_one_second() {
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
    fn new_rate_keeps_taken_tokens() {
        let start = Instant::now();
        let mut bucket = TokenBucket::full(1000, start);
        bucket.take(1000, start).unwrap();
        let mut faster = TokenBucket::changed(Some(bucket), Some(5000), start).unwrap();
        assert!(faster.take(1, start).is_err());
        assert!(TokenBucket::changed(Some(faster), None, start).is_none());
    }

    #[test]
    fn small_time_steps_do_not_lose_tokens() {
        let start = Instant::now();
        let mut bucket = TokenBucket::full(7, start);
        bucket.take(7, start).unwrap();
        for step in 1..=1001 {
            bucket.fill(start + Duration::from_millis(step));
        }
        assert_eq!(bucket.filled, 7);
    }
}
