//! [`AuditBudget`]: limits the size of the audit log of a session.
//!
//! The log is on the host's disk and outlives its session, so a session must not be able to fill
//! it. A log may have `max_audit_size` bytes, and a sixteenth of that more for each day of its age.
//! Beyond that, entries that a session causes are counted by verb instead of written, and an entry
//! `entries_left_out` has the counts of a period. Entries about the life of a session and its
//! policy are always written. The hash chain covers what is written, so it stays intact.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sandbar_core::{ByteCount, MutexExt as _, Result, SessionId};
use serde_json::{Map, Value};

use crate::{audit::Event, state::StateStore, verb::Verb};

/// Minimum time between two entries `entries_left_out` of a session.
const SUMMARY_INTERVAL: Duration = Duration::from_mins(10);

/// Part of the budget that is added for each day.
const REFILL_DIVISOR: u128 = 16;

const MILLISECONDS_PER_DAY: u128 = 24 * 60 * 60 * 1000;

/// Name of the entry with the counts.
pub(crate) const LEFT_OUT: &str = "entries_left_out";

/// Sizes of the audit logs of sessions.
#[derive(Debug, Default)]
pub(crate) struct AuditBudget(Mutex<HashMap<SessionId, Meter>>);

#[derive(Debug)]
struct Meter {
    bytes: u64,
    /// Time of the first entry.
    began: Timestamp,
    /// Entries since the last summary that were not written, by what they were about.
    left_out: BTreeMap<&'static str, u64>,
    last_summary: Option<Instant>,
}

impl Meter {
    fn load(state: &StateStore, session: &SessionId) -> Result<Self> {
        let (bytes, began) = state.audit_size(session)?;
        Ok(Self {
            bytes,
            began: began.unwrap_or_else(Timestamp::now),
            left_out: BTreeMap::new(),
            last_summary: None,
        })
    }

    fn is_full(&self, limit: ByteCount) -> bool {
        let age = Timestamp::now().duration_since(self.began);
        let age = u128::try_from(age.as_millis()).unwrap_or(0);
        let limit = u128::from(limit.get());
        let refilled = limit * age / (REFILL_DIVISOR * MILLISECONDS_PER_DAY);
        u128::from(self.bytes) >= limit + refilled
    }

    fn take_summary(&mut self, session: &SessionId) -> Option<Event> {
        if self.left_out.is_empty() {
            return None;
        }
        self.last_summary = Some(Instant::now());
        let left_out = std::mem::take(&mut self.left_out);
        let count: u64 = left_out.values().sum();
        let verbs: Map<String, Value> = left_out
            .into_iter()
            .map(|(what, count)| (what.to_owned(), count.into()))
            .collect();
        Some(
            Event::of_host(session, LEFT_OUT)
                .with("reason", "audit log of the session has reached its limit")
                .with("count", count)
                .with("entries", verbs),
        )
    }

    fn is_summary_due(&self) -> bool {
        self.last_summary
            .is_none_or(|last| last.elapsed() >= SUMMARY_INTERVAL)
    }
}

/// Whether an entry is written whatever the size of the log. No session can cause these at will.
fn is_vital(what: &str) -> bool {
    const VITAL: [&str; 5] = [
        Verb::CreateSession.as_str(),
        Verb::DestroySession.as_str(),
        Verb::ForkSession.as_str(),
        Verb::SetNetwork.as_str(),
        Verb::SetExpiry.as_str(),
    ];
    VITAL.contains(&what) || what == "recover"
}

impl AuditBudget {
    /// Returns the entries to write instead of `event`: itself, a summary, both or none.
    pub(crate) fn admit(
        &self,
        state: &StateStore,
        limit: ByteCount,
        event: &Event,
    ) -> Result<(Option<Event>, bool)> {
        if limit == ByteCount(0) {
            return Ok((None, true));
        }
        let mut sessions = self.0.lock_unpoisoned();
        if !sessions.contains_key(&event.session) {
            let meter = Meter::load(state, &event.session)?;
            sessions.insert(event.session.clone(), meter);
        }
        let Some(meter) = sessions.get_mut(&event.session) else {
            return Ok((None, true));
        };
        let is_last = event.what == Verb::DestroySession.as_str();
        let is_written = is_vital(event.what) || !meter.is_full(limit);
        if !is_written {
            *meter.left_out.entry(event.what).or_default() += 1;
        }
        let summary = if is_last || meter.is_summary_due() {
            meter.take_summary(&event.session)
        } else {
            None
        };
        Ok((summary, is_written))
    }

    /// Counts an entry that was written.
    pub(crate) fn count(&self, session: &SessionId, bytes: u64) {
        if let Some(meter) = self.0.lock_unpoisoned().get_mut(session) {
            meter.bytes += bytes;
        }
    }

    /// Forgets a session that is gone.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.0.lock_unpoisoned().remove(session);
    }

    /// Returns the summaries that are not written yet: those that are due, or all.
    pub(crate) fn summaries(&self, which: Summaries) -> Vec<Event> {
        let mut sessions = self.0.lock_unpoisoned();
        let due = sessions
            .iter_mut()
            .filter(|(_, meter)| which == Summaries::All || meter.is_summary_due());
        due.filter_map(|(session, meter)| meter.take_summary(session))
            .collect()
    }
}

/// Selection of summaries to write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summaries {
    Due,
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_beyond_its_budget_has_counts_and_vital_entries() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateStore::open(&directory.path().join("state.db")).unwrap();
        let session: SessionId = "s".parse().unwrap();
        let (budget, limit) = (AuditBudget::default(), ByteCount(1000));
        let mut written = Vec::new();
        let mut record = |what: &'static str| {
            let event = Event::of_host(&session, what);
            let (summary, is_written) = budget.admit(&state, limit, &event).unwrap();
            for event in summary.iter().chain(is_written.then_some(&event)) {
                budget.count(&session, state.append_audit(event).unwrap());
                written.push((event.what, event.detail.get("count").cloned()));
            }
        };
        for _ in 0..100 {
            record("exec");
        }
        record("set_network");
        record("destroy_session");
        let execs = written.iter().filter(|(what, _)| *what == "exec").count();
        assert!((5..10).contains(&execs), "{execs}");
        // The first one that was left out is reported at once, the rest with the last entry.
        assert_eq!(written[execs], (LEFT_OUT, Some(1.into())));
        let rest = 100 - execs - 1;
        assert_eq!(
            written[execs + 1..],
            [
                ("set_network", None),
                (LEFT_OUT, Some(rest.into())),
                ("destroy_session", None)
            ]
        );
        // A host that is started again finds the same size.
        let again = AuditBudget::default();
        let exec = Event::of_host(&session, "exec");
        assert!(!again.admit(&state, limit, &exec).unwrap().1);
        assert!(again.admit(&state, ByteCount(0), &exec).unwrap().1);
        assert!(matches!(
            state.verify_audit(&session).unwrap(),
            sandbar_core::AuditVerdict::Intact { entries, .. } if entries == written.len() as u64
        ));
    }

    #[test]
    fn budget_grows_with_the_age_of_the_log() {
        let day = jiff::SignedDuration::from_hours(24);
        let mut meter = Meter {
            bytes: 1600,
            began: Timestamp::now(),
            left_out: BTreeMap::new(),
            last_summary: None,
        };
        assert!(meter.is_full(ByteCount(1600)));
        meter.began -= day;
        assert!(!meter.is_full(ByteCount(1600)));
        meter.bytes = 1701;
        assert!(meter.is_full(ByteCount(1600)));
    }
}
