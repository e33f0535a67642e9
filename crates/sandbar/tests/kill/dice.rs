//! Reproducible random numbers; the seed is printed.

/// Returns the seed of the environment variable, or a new one.
pub(crate) fn seed(variable: &str) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    let given = std::env::var(variable)
        .ok()
        .and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| RandomState::new().hash_one("seed") >> 32)
}

/// Random number generator (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    /// Returns a generator; each `user` of a seed gets an independent sequence.
    pub(crate) fn new(seed: u64, user: u64) -> Self {
        let mut dice = Self(seed ^ user.wrapping_mul(0xd134_2543_de82_ef95));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Picks one of several values.
    pub(crate) fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len())]
    }
}
