//! Length of the long tests.

/// Returns how many rounds, or bytes, a long test takes: a share of `full`, and at least `least`.
///
/// `SANDBAR_TEST_SCALE` is the share in percent: 10 when unset, as in `make test`; 100 in `make
/// test-full`. More is possible.
pub fn scaled(full: u64, least: u64) -> u64 {
    let percent = std::env::var("SANDBAR_TEST_SCALE")
        .ok()
        .and_then(|percent| percent.parse().ok())
        .unwrap_or(10);
    at_percent(full, least, percent)
}

fn at_percent(full: u64, least: u64, percent: u64) -> u64 {
    (full.saturating_mul(percent) / 100).max(least)
}

#[cfg(test)]
mod tests {
    use super::at_percent;

    #[test]
    fn scaled_count_is_rounded_down_with_a_minimum() {
        assert_eq!(at_percent(50, 3, 10), 5);
        assert_eq!(at_percent(12, 2, 10), 2);
        assert_eq!(at_percent(50, 3, 100), 50);
        assert_eq!(at_percent(50, 3, 400), 200);
    }
}
