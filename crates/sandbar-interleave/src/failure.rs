//! Report of a failed run, with the schedule that reproduces it.

use std::fmt;

use crate::{pending::Step, schedule::Schedule};

/// Number of last steps that a report shows.
const STEPS_SHOWN: usize = 80;

/// A schedule under which the code does not do what it should.
#[derive(Debug)]
pub struct Failure {
    pub(crate) what: String,
    pub(crate) schedule: Schedule,
    pub(crate) steps: Vec<Step>,
    /// Number of schedules tried, including this one.
    pub(crate) schedules: usize,
}

impl Failure {
    /// Describes the failure: a panic, a deadlock, a run without end.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the schedule, in the form that [`replay`](crate::replay) takes.
    pub fn schedule(&self) -> String {
        self.schedule.to_string()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.what)?;
        let hidden = self.steps.len().saturating_sub(STEPS_SHOWN);
        if hidden > 0 {
            writeln!(formatter, "  ... {hidden} steps before")?;
        }
        for step in &self.steps[hidden..] {
            writeln!(formatter, "  {step}")?;
        }
        write!(
            formatter,
            "schedule {} of those tried; go there again with replay(\"{}\", ...)",
            self.schedules, self.schedule
        )
    }
}
