//! One way to get out.

use std::io::Write;

use crate::{
    child::{Ended, PATIENCE, in_child, killed_by_filter},
    facts::Facts,
    verdict::{Inconclusive, Outcome, Verdict},
};

/// A group of attempts at the same part of the boundary.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) attempts: &'static [Attempt],
}

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    /// What it tries, and what success looks like.
    pub(crate) tries: &'static str,
    run: fn(&Facts) -> Outcome,
}

impl Attempt {
    pub(crate) const fn new(name: &'static str, tries: &'static str, run: fn(&Facts) -> Outcome) -> Self {
        Self { name, tries, run }
    }

    /// Makes the attempt in a process of its own: a filter may kill for the call, and that is an answer too.
    pub(crate) fn perform(&self, facts: &Facts) -> Outcome {
        let ended = in_child(|mut report| {
            let (kind, text) = match (self.run)(facts) {
                Ok(Verdict::Held(why)) => ('h', why),
                Ok(Verdict::Escaped(what)) => ('e', what),
                Err(Inconclusive(why)) => ('i', why),
            };
            let _ = write!(report, "{kind}{text}");
        })?;
        match ended {
            Ended::Said(text) => match text.split_at_checked(1) {
                Some(("h", why)) => Ok(Verdict::Held(why.to_owned())),
                Some(("e", what)) => Ok(Verdict::Escaped(what.to_owned())),
                Some(("i", why)) => Err(Inconclusive(why.to_owned())),
                _ => Err(Inconclusive("the attempt ended without a word".to_owned())),
            },
            Ended::Killed(libc::SIGSYS) => Ok(Verdict::Held(killed_by_filter().to_string())),
            Ended::Killed(libc::SIGALRM) => Err(Inconclusive(format!("no answer in {PATIENCE} seconds"))),
            Ended::Killed(signal) => Err(Inconclusive(format!("the attempt died of signal {signal}"))),
        }
    }
}
