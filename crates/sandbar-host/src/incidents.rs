//! [`Incidents`]: recent errors of the host itself, as opposed to errors of callers.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use sandbar_core::{Error, ErrorCode};

use crate::verb::Call;

const MAX_INCIDENTS: usize = 20;

/// The last errors of the host itself, for its health report.
#[derive(Debug, Default)]
pub(crate) struct Incidents(Mutex<VecDeque<String>>);

impl Incidents {
    /// Records an error, unless it is one of the caller.
    pub(crate) fn note(&self, call: &Call, error: &Error) {
        if !matches!(
            error.code(),
            ErrorCode::Internal | ErrorCode::StorageFull | ErrorCode::Unavailable
        ) {
            return;
        }
        let on = call
            .session
            .as_ref()
            .map(|session| format!(" on `{session}`"))
            .unwrap_or_default();
        let mut kept = self.lock();
        if kept.len() == MAX_INCIDENTS {
            kept.pop_front();
        }
        kept.push_back(format!(
            "{} {}{on}: {}",
            Timestamp::now().strftime("%FT%TZ"),
            call.verb.as_str(),
            error.chain()
        ));
    }

    /// Lists the incidents, oldest first.
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
    fn host_errors_are_recorded_and_caller_errors_are_not() {
        let incidents = Incidents::default();
        incidents.note(
            &Call::of(Verb::ListBases),
            &Error::new(ErrorCode::BaseNotFound, "no such base"),
        );
        assert!(incidents.list().is_empty());
        for number in 0..MAX_INCIDENTS + 3 {
            incidents.note(
                &Call::of(Verb::ListBases),
                &Error::internal(format!("broken {number}")),
            );
        }
        let kept = incidents.list();
        assert_eq!(kept.len(), MAX_INCIDENTS);
        assert!(kept[0].ends_with("list_bases: broken 3"), "{}", kept[0]);
    }
}
