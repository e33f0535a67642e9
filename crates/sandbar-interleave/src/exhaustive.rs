//! Every schedule, depth first.

use crate::explorer::{Choice, Explorer, ThreadId};

/// Goes through the tree of decisions from left to right.
#[derive(Debug)]
pub(crate) struct DepthFirst {
    most_preemptions: Option<usize>,
    /// The decisions of this run, down to where it left those of the last one.
    path: Vec<Decision>,
    depth: usize,
    preemptions: usize,
}

#[derive(Debug)]
struct Decision {
    choices: Vec<Choice>,
    /// Places in `choices` that are still to be tried; the last is the one taken now.
    untried: Vec<usize>,
}

impl DepthFirst {
    pub(crate) fn new(most_preemptions: Option<usize>) -> Self {
        Self {
            most_preemptions,
            path: Vec::new(),
            depth: 0,
            preemptions: 0,
        }
    }

    fn affords(&self, choice: Choice) -> bool {
        !choice.preempts
            || self
                .most_preemptions
                .is_none_or(|most| self.preemptions < most)
    }
}

impl Explorer for DepthFirst {
    fn choose(&mut self, choices: &[Choice]) -> Result<usize, String> {
        if self.depth == self.path.len() {
            let untried = (0..choices.len())
                .rev()
                .filter(|&place| self.affords(choices[place]))
                .collect();
            self.path.push(Decision {
                choices: choices.to_vec(),
                untried,
            });
        }
        let decision = &self.path[self.depth];
        if decision.choices != choices {
            return Err(format!(
                "it is not the same each time: threads {:?} could go on where {:?} could before",
                threads(choices),
                threads(&decision.choices),
            ));
        }
        let place = *decision
            .untried
            .last()
            .ok_or("there was nothing to choose from")?;
        self.depth += 1;
        self.preemptions += usize::from(choices[place].preempts);
        Ok(place)
    }

    fn advance(&mut self) -> bool {
        self.depth = 0;
        self.preemptions = 0;
        while let Some(decision) = self.path.last_mut() {
            decision.untried.pop();
            if !decision.untried.is_empty() {
                return true;
            }
            self.path.pop();
        }
        false
    }
}

fn threads(choices: &[Choice]) -> Vec<ThreadId> {
    choices.iter().map(|choice| choice.thread).collect()
}
