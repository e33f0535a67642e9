//! Entry points: exhaustive exploration, random exploration and replay.

use crate::{
    crew::Crew,
    exhaustive::DepthFirst,
    explorer::Explorer,
    failure::Failure,
    random::Drawn,
    run,
    schedule::{Followed, Schedule},
};

/// All schedules, or all with few preemptions.
#[derive(Clone, Copy, Debug)]
pub struct Exhaustive {
    preemptions: Option<usize>,
    most_schedules: usize,
}

impl Default for Exhaustive {
    fn default() -> Self {
        Self {
            preemptions: None,
            most_schedules: 200_000,
        }
    }
}

impl Exhaustive {
    /// Leaves out schedules with more preemptions than this. A timeout that expires while another
    /// thread is runnable counts as a preemption. Without this limit, all schedules are tried.
    #[must_use]
    pub fn preemptions(mut self, most: usize) -> Self {
        self.preemptions = Some(most);
        self
    }

    /// Fails when there are more schedules than this: a partial exploration proves nothing.
    #[must_use]
    pub fn at_most(mut self, schedules: usize) -> Self {
        self.most_schedules = schedules;
        self
    }

    /// Runs `body` under every schedule and returns their number. Panics with a report when one
    /// fails.
    pub fn check(self, body: impl Fn()) -> usize {
        self.explore(body)
            .unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Runs `body` under every schedule, up to the first that fails.
    pub fn explore(self, body: impl Fn()) -> Result<usize, Failure> {
        explore(
            Box::new(DepthFirst::new(self.preemptions)),
            self.most_schedules,
            &body,
        )
    }
}

/// Schedules drawn from a seed, for code with too many schedules to try all.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    seed: u64,
    schedules: usize,
}

impl Random {
    pub fn new(seed: u64, schedules: usize) -> Self {
        Self { seed, schedules }
    }

    /// Runs `body` under every schedule drawn. Panics with a report when one fails.
    pub fn check(self, body: impl Fn()) {
        if let Err(failure) = self.explore(body) {
            panic!("{failure}");
        }
    }

    /// Runs `body` under every schedule drawn, up to the first that fails.
    pub fn explore(self, body: impl Fn()) -> Result<usize, Failure> {
        explore(
            Box::new(Drawn::new(self.seed, self.schedules)),
            self.schedules,
            &body,
        )
    }
}

/// Runs `body` once, under a schedule that a failure has reported.
pub fn replay(schedule: &str, body: impl Fn()) -> Result<(), Failure> {
    let schedule: Schedule = schedule
        .parse()
        .unwrap_or_else(|error| panic!("`{schedule}` is no schedule: {error}"));
    explore(Box::new(Followed::new(schedule)), 1, &body).map(|_| ())
}

fn explore(
    mut explorer: Box<dyn Explorer>,
    most: usize,
    body: &dyn Fn(),
) -> Result<usize, Failure> {
    let (mut schedules, mut crew) = (0, Crew::default());
    loop {
        schedules += 1;
        let ended = run::execute(explorer, crew, body);
        (explorer, crew) = (ended.explorer, ended.crew);
        if let Some(what) = ended.failure {
            return Err(Failure {
                what,
                schedule: ended.schedule,
                steps: ended.steps,
                schedules,
            });
        }
        if !explorer.advance() {
            return Ok(schedules);
        }
        if schedules == most {
            let what = format!(
                "there are more than {most} schedules; nothing is proven by trying some of them"
            );
            return Err(Failure {
                what,
                schedule: ended.schedule,
                steps: Vec::new(),
                schedules,
            });
        }
    }
}
