//! What went wrong lately, and was not the caller's fault.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode};

use crate::verb::Call;

/// How many are kept.
const KEPT: usize = 20;

/// The last few errors of the host itself, for its health report.
#[derive(Debug, Default)]
pub(crate) struct Incidents(Mutex<VecDeque<String>>);

impl Incidents {
    /// Keeps an error, when it tells something about the host.
    pub(crate) fn note(&self, call: &Call, error: &Error) {
        if !matches!(error.code(), ErrorCode::Internal | ErrorCode::StorageFull | ErrorCode::Unavailable) {
            return;
        }
        let on = call.session.as_ref().map(|session| format!(" on `{session}`")).unwrap_or_default();
        let mut kept = self.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(format!(
            "{} {}{on}: {}",
            Timestamp::now().strftime("%FT%TZ"),
            call.verb.as_str(),
            error.chain()
        ));
    }

    /// Oldest first.
    pub(crate) fn list(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::Verb;

    #[test]
    fn errors_of_the_host_are_kept_and_those_of_callers_are_not() {
        let incidents = Incidents::default();
        incidents.note(&Call::of(Verb::ListBases), &Error::new(ErrorCode::BaseNotFound, "no such base"));
        assert!(incidents.list().is_empty());
        for number in 0..KEPT + 3 {
            incidents.note(&Call::of(Verb::ListBases), &Error::internal(format!("broken {number}")));
        }
        let kept = incidents.list();
        assert_eq!(kept.len(), KEPT);
        assert!(kept[0].ends_with("list_bases: broken 3"), "{}", kept[0]);
    }
}
