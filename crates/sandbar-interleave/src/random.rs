//! Schedules drawn from a seed.

use crate::explorer::{Choice, ChoiceKind, Explorer, ThreadId};

/// Priority changes in a run that schedules by priority. Bugs that need more are rare.
const PRIORITY_CHANGES: usize = 3;

/// Alternates between two random schedulers. Uniform: at each decision choices are equally likely.
/// By priority: the runnable thread with the highest priority runs, and priorities change a few
/// times; that finds bugs that need one thread to be far ahead of another (Burckhardt et al., "A
/// Randomized Scheduler with Probabilistic Guarantees").
#[derive(Debug)]
pub(crate) struct Drawn {
    numbers: Numbers,
    left: usize,
    decisions: u64,
    longest: u64,
    /// Threads by ascending priority; `None` in a run that draws uniformly.
    priorities: Option<Vec<ThreadId>>,
    changes: Vec<u64>,
}

impl Drawn {
    pub(crate) fn new(seed: u64, schedules: usize) -> Self {
        let numbers = Numbers(seed);
        Self {
            numbers,
            left: schedules,
            decisions: 0,
            longest: 0,
            priorities: None,
            changes: Vec::new(),
        }
    }

    fn by_priority(&mut self, choices: &[Choice]) -> usize {
        for choice in choices {
            self.rank(choice.thread);
        }
        let changes = self.changes.contains(&self.decisions);
        let Some(priorities) = &mut self.priorities else {
            return 0;
        };
        let rank = |priorities: &[ThreadId], choice: &Choice| {
            priorities.iter().position(|&id| id == choice.thread)
        };
        let first = |priorities: &[ThreadId]| {
            (0..choices.len())
                .max_by_key(|&place| rank(priorities, &choices[place]))
                .unwrap_or_default()
        };
        let mut place = first(priorities);
        // A thread that times out gets the lowest priority; otherwise it could time out repeatedly
        // and starve the other threads.
        if changes || choices[place].kind == ChoiceKind::TimeOut {
            let thread = choices[place].thread;
            priorities.retain(|&id| id != thread);
            priorities.insert(0, thread);
            if changes {
                place = first(priorities);
            }
        }
        place
    }

    /// Gives a new thread a random priority.
    fn rank(&mut self, thread: ThreadId) {
        if let Some(priorities) = &mut self.priorities
            && !priorities.contains(&thread)
        {
            let place = self.numbers.below(priorities.len() + 1);
            priorities.insert(place, thread);
        }
    }
}

impl Explorer for Drawn {
    fn choose(&mut self, choices: &[Choice]) -> Result<usize, String> {
        self.decisions += 1;
        if self.priorities.is_some() {
            Ok(self.by_priority(choices))
        } else {
            Ok(self.numbers.below(choices.len()))
        }
    }

    fn advance(&mut self) -> bool {
        self.longest = self.longest.max(self.decisions);
        self.decisions = 0;
        self.left = self.left.saturating_sub(1);
        self.priorities = if self.priorities.is_some() {
            None
        } else {
            Some(Vec::new())
        };
        self.changes = (0..PRIORITY_CHANGES)
            .map(|_| self.numbers.next() % self.longest.max(1))
            .collect();
        self.left > 0
    }
}

/// SplitMix64: small, and even enough for schedules.
#[derive(Debug)]
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        usize::try_from(self.next() % limit).unwrap_or_default()
    }
}
