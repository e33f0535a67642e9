//! One escape attempt.

use std::io::Write;

use crate::{
    child::{ATTEMPT_TIMEOUT_SECONDS, Ended, in_child, killed_by_filter},
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
    /// The action, then the condition that counts as an escape.
    pub(crate) description: &'static str,
    run: fn(&Facts) -> Outcome,
}

impl Attempt {
    pub(crate) const fn new(
        name: &'static str,
        description: &'static str,
        run: fn(&Facts) -> Outcome,
    ) -> Self {
        Self {
            name,
            description,
            run,
        }
    }

    /// Makes the attempt in a child process: a seccomp filter may kill the caller, which also
    /// counts as held.
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
            Ended::Reported(text) => match text.split_at_checked(1) {
                Some(("h", why)) => Ok(Verdict::Held(why.to_owned())),
                Some(("e", what)) => Ok(Verdict::Escaped(what.to_owned())),
                Some(("i", why)) => Err(Inconclusive(why.to_owned())),
                _ => Err(Inconclusive("attempt ended without a report".to_owned())),
            },
            Ended::Killed(libc::SIGSYS) => Ok(Verdict::Held(killed_by_filter().to_string())),
            Ended::Killed(libc::SIGALRM) => Err(Inconclusive(format!(
                "attempt timed out after {ATTEMPT_TIMEOUT_SECONDS} seconds"
            ))),
            Ended::Killed(signal) => Err(Inconclusive(format!(
                "attempt was killed by signal {signal}"
            ))),
        }
    }
}
