//! Schedules drawn from a seed.

use crate::explorer::{Choice, ChoiceKind, Explorer, ThreadId};

/// How often the order of threads changes in a run that goes by priorities. Bugs that need more are rare.
const CHANGES: usize = 3;

/// Draws schedules in two ways, in turns. Evenly: everybody is as likely as everybody else at each decision. By
/// priorities: the thread that comes first goes on as long as it can, and the order changes a few times; that finds what
/// needs one thread to be far ahead of another (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees").
#[derive(Debug)]
pub(crate) struct Drawn {
    numbers: Numbers,
    left: usize,
    decisions: u64,
    longest: u64,
    /// The order of threads, the first one last; empty and unused in a run that draws evenly.
    priorities: Option<Vec<ThreadId>>,
    changes: Vec<u64>,
}

impl Drawn {
    pub(crate) fn new(seed: u64, schedules: usize) -> Self {
        let numbers = Numbers(seed);
        Self { numbers, left: schedules, decisions: 0, longest: 0, priorities: None, changes: Vec::new() }
    }

    fn by_priority(&mut self, choices: &[Choice]) -> usize {
        for choice in choices {
            self.rank(choice.thread);
        }
        let changes = self.changes.contains(&self.decisions);
        let Some(priorities) = &mut self.priorities else { return 0 };
        let rank = |priorities: &[ThreadId], choice: &Choice| priorities.iter().position(|&id| id == choice.thread);
        let first = |priorities: &[ThreadId]| {
            (0..choices.len()).max_by_key(|&place| rank(priorities, &choices[place])).unwrap_or_default()
        };
        let mut place = first(priorities);
        // One whose time is up goes to the end of the line, or it would time out again and again while nobody else moves.
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

    /// Gives a thread that is new some place in the order.
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
        if self.priorities.is_some() { Ok(self.by_priority(choices)) } else { Ok(self.numbers.below(choices.len())) }
    }

    fn advance(&mut self) -> bool {
        self.longest = self.longest.max(self.decisions);
        self.decisions = 0;
        self.left = self.left.saturating_sub(1);
        self.priorities = if self.priorities.is_some() { None } else { Some(Vec::new()) };
        self.changes = (0..CHANGES).map(|_| self.numbers.next() % self.longest.max(1)).collect();
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
