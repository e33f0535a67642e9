//! A schedule as text, and following one.

use std::{fmt, str::FromStr};

use crate::explorer::{Choice, Explorer, ThreadId};

/// The threads that were picked where there was a choice, in order: `1.1.0.2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule(pub(crate) Vec<ThreadId>);

impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        formatter.write_str(&threads.join("."))
    }
}

impl FromStr for Schedule {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split_terminator('.')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Goes the way of a schedule, and straight on where it ends.
#[derive(Debug)]
pub(crate) struct Followed {
    schedule: Schedule,
    decisions: usize,
}

impl Followed {
    pub(crate) fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            decisions: 0,
        }
    }
}

impl Explorer for Followed {
    fn choose(&mut self, choices: &[Choice]) -> Result<usize, String> {
        let Some(&thread) = self.schedule.0.get(self.decisions) else {
            return Ok(0);
        };
        self.decisions += 1;
        choices
            .iter()
            .position(|choice| choice.thread == thread)
            .ok_or_else(|| {
                format!(
                    "the schedule does not fit: thread {thread} cannot go on at decision {}",
                    self.decisions
                )
            })
    }

    fn advance(&mut self) -> bool {
        false
    }
}
