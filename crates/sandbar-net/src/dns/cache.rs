//! What was found out lately.

use std::{collections::HashMap, time::Instant};

use sandbar_core::DomainName;

/// Keeps a bounded number of values, each until its time.
#[derive(Debug)]
pub(super) struct Cache<T> {
    most: usize,
    entries: HashMap<DomainName, (Instant, T)>,
}

impl<T: Clone> Cache<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, entries: HashMap::new() }
    }

    pub(super) fn get(&self, name: &DomainName, now: Instant) -> Option<T> {
        self.entries.get(name).filter(|(until, _)| *until > now).map(|(_, value)| value.clone())
    }

    pub(super) fn put(&mut self, name: DomainName, value: T, until: Instant, now: Instant) {
        if self.entries.len() >= self.most && !self.entries.contains_key(&name) {
            self.make_room(now);
        }
        self.entries.insert(name, (until, value));
    }

    /// Drops what is over, and of the rest what is over next: an eighth at a time, so that it is not done for every entry.
    fn make_room(&mut self, now: Instant) {
        self.entries.retain(|_, (until, _)| *until > now);
        let most = self.most - self.most.div_ceil(8);
        if self.entries.len() <= most {
            return;
        }
        let mut times: Vec<(Instant, DomainName)> =
            self.entries.iter().map(|(name, (until, _))| (*until, name.clone())).collect();
        let surplus = times.len() - most;
        times.select_nth_unstable(surplus - 1);
        for (_, name) in &times[..surplus] {
            self.entries.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn name(number: u64) -> DomainName {
        format!("n{number}.example").parse().unwrap()
    }

    #[test]
    fn a_value_is_kept_until_its_time() {
        let now = Instant::now();
        let mut cache = Cache::new(8);
        cache.put(name(1), 'a', now + Duration::from_secs(1), now);
        assert_eq!(cache.get(&name(1), now), Some('a'));
        assert_eq!(cache.get(&name(1), now + Duration::from_secs(1)), None);
        assert_eq!(cache.get(&name(2), now), None);
    }

    #[test]
    fn what_is_over_first_goes_first_when_there_is_no_room() {
        let now = Instant::now();
        let mut cache = Cache::new(16);
        for number in 0..100 {
            cache.put(name(number), number, now + Duration::from_secs(1 + number), now);
            assert!(cache.entries.len() <= 16);
            assert_eq!(cache.get(&name(number), now), Some(number));
        }
        assert_eq!(cache.get(&name(0), now), None);
        assert_eq!(cache.get(&name(98), now), Some(98));
    }
}
