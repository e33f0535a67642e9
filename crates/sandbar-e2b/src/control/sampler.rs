//! Periodic sampling of resource usage, for the metrics of the API.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use jiff::Timestamp;
use sandbar_core::{
    MutexExt as _, SessionFilter, SessionId, SessionInfo, SessionState, SessionUsage,
};
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use super::Control;

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// Samples kept per sandbox: one hour.
const MAX_SAMPLES: usize = 720;

/// Samples between two scans for secrets of destroyed sandboxes.
const SECRET_SCAN_INTERVAL: u64 = 120;

/// Resource usage of a sandbox at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) at: Timestamp,
    /// CPU time since the previous sample divided by wall time.
    pub(super) cpus_used: f64,
    /// Bytes.
    pub(super) memory: u64,
    pub(super) disk: u64,
    cpu_time: Duration,
}

impl Sample {
    fn new(
        session: &SessionInfo,
        usage: SessionUsage,
        at: Timestamp,
        before: Option<&Self>,
    ) -> Self {
        let cpu_time = usage.cpu_time.unwrap_or_default();
        let cpus_used = before.map_or(0.0, |before| {
            let wall = at.duration_since(before.at).as_secs_f64();
            // The counter restarts with a new box.
            let used = cpu_time.saturating_sub(before.cpu_time).as_secs_f64();
            if wall > 0.0 { used / wall } else { 0.0 }
        });
        Self {
            at,
            cpus_used,
            memory: usage.memory.map_or(0, |bytes| bytes.0),
            disk: session.space_used.0,
            cpu_time,
        }
    }
}

/// Last samples of every sandbox, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<HashMap<SessionId, VecDeque<Sample>>>);

impl Samples {
    fn kept(&self) -> MutexGuard<'_, HashMap<SessionId, VecDeque<Sample>>> {
        self.0.lock_unpoisoned()
    }

    /// Adds a sample; a sandbox that does not run has no usage and gets none.
    fn add(&self, session: &SessionInfo, at: Timestamp) {
        let Some(usage) = session
            .usage
            .filter(|_| session.state == SessionState::Active)
        else {
            return;
        };
        let mut kept = self.kept();
        let ring = kept.entry(session.id.clone()).or_default();
        // A request may have added a newer sample meanwhile.
        if ring.back().is_some_and(|last| last.at >= at) {
            return;
        }
        ring.push_back(Sample::new(session, usage, at, ring.back()));
        if ring.len() > MAX_SAMPLES {
            ring.pop_front();
        }
    }

    /// Removes the samples of sandboxes that no longer exist.
    fn retain(&self, existing: &HashSet<SessionId>) {
        self.kept().retain(|id, _| existing.contains(id));
    }

    /// Returns the samples of a sandbox between two moments.
    pub(super) fn of(
        &self,
        id: &SessionId,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> Vec<Sample> {
        let within = |sample: &&Sample| {
            from.is_none_or(|from| sample.at >= from) && to.is_none_or(|to| sample.at <= to)
        };
        self.kept()
            .get(id)
            .into_iter()
            .flatten()
            .filter(within)
            .copied()
            .collect()
    }

    pub(super) fn last(&self, id: &SessionId) -> Option<Sample> {
        self.kept().get(id).and_then(|ring| ring.back().copied())
    }
}

/// Owns the sampling task, which is aborted when this is dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    _task: AbortOnDropHandle<()>,
}

impl Sampler {
    #[expect(
        clippy::disallowed_methods,
        reason = "aborted when its owner is dropped"
    )]
    pub(crate) fn start(control: &Arc<Control>) -> Self {
        Self {
            _task: AbortOnDropHandle::new(tokio::spawn(measure(Arc::downgrade(control)))),
        }
    }
}

async fn measure(control: Weak<Control>) {
    let mut clock = tokio::time::interval(SAMPLE_INTERVAL);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut round = 0_u64;
    loop {
        clock.tick().await;
        let Some(control) = control.upgrade() else {
            return;
        };
        control.sample_all().await;
        if round.is_multiple_of(SECRET_SCAN_INTERVAL) {
            control.delete_orphaned_secrets().await;
        }
        round += 1;
    }
}

impl Control {
    /// Samples all sandboxes. A failure is ignored: the next round tries again.
    async fn sample_all(&self) {
        let filter = SessionFilter {
            with_usage: true,
            ..SessionFilter::default()
        };
        let Ok(sessions) = self.sessions(&filter).await else {
            return;
        };
        let now = Timestamp::now();
        for session in &sessions {
            self.samples.add(session, now);
        }
        self.samples
            .retain(&sessions.into_iter().map(|session| session.id).collect());
    }

    /// Samples a sandbox that has no sample yet, so that an early request gets one.
    pub(super) async fn sample_early(&self, id: &SessionId) {
        if self.samples.last(id).is_none()
            && let Ok(session) = self.host.get_session_with_usage(id).await
        {
            self.samples.add(&session, Timestamp::now());
        }
    }
}
