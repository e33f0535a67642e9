//! Measuring what sandboxes use, now and then, so that there is something to tell when somebody asks.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use jiff::Timestamp;
use sandbar_core::{SessionFilter, SessionId, SessionInfo, SessionState, SessionUsage};
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use crate::surface::Surface;

/// How often.
const EVERY: Duration = Duration::from_secs(5);

/// How many of a sandbox are kept: an hour of them.
const KEPT: usize = 720;

/// How often secrets of sandboxes that are gone are looked for, in samples.
const TIDY_EVERY: u64 = 120;

/// What a sandbox used at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) at: Timestamp,
    /// Since the sample before, in shares of one processor.
    pub(super) cpus_used: f64,
    /// Bytes.
    pub(super) memory: u64,
    pub(super) disk: u64,
    cpu_time: Duration,
}

impl Sample {
    fn new(session: &SessionInfo, usage: SessionUsage, at: Timestamp, before: Option<&Self>) -> Self {
        let cpu_time = usage.cpu_time.unwrap_or_default();
        let cpus_used = before.map_or(0.0, |before| {
            let wall = at.duration_since(before.at).as_secs_f64();
            // A new box begins to count anew.
            let used = cpu_time.saturating_sub(before.cpu_time).as_secs_f64();
            if wall > 0.0 { used / wall } else { 0.0 }
        });
        Self { at, cpus_used, memory: usage.memory.map_or(0, |bytes| bytes.0), disk: session.space_used.0, cpu_time }
    }
}

/// The last samples of every sandbox, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<HashMap<SessionId, VecDeque<Sample>>>);

impl Samples {
    fn kept(&self) -> MutexGuard<'_, HashMap<SessionId, VecDeque<Sample>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a sandbox uses now; nothing of one that does not run, which uses nothing.
    fn take(&self, session: &SessionInfo, at: Timestamp) {
        let Some(usage) = session.usage.filter(|_| session.state == SessionState::Active) else { return };
        let mut kept = self.kept();
        let ring = kept.entry(session.id.clone()).or_default();
        // Somebody who asked may have had one taken meanwhile.
        if ring.back().is_some_and(|last| last.at >= at) {
            return;
        }
        ring.push_back(Sample::new(session, usage, at, ring.back()));
        if ring.len() > KEPT {
            ring.pop_front();
        }
    }

    /// Forgets those that are gone.
    fn retain(&self, there: &HashSet<SessionId>) {
        self.kept().retain(|id, _| there.contains(id));
    }

    /// The samples of a sandbox between two moments.
    pub(super) fn of(&self, id: &SessionId, from: Option<Timestamp>, to: Option<Timestamp>) -> Vec<Sample> {
        let within =
            |sample: &&Sample| from.is_none_or(|from| sample.at >= from) && to.is_none_or(|to| sample.at <= to);
        self.kept().get(id).into_iter().flatten().filter(within).copied().collect()
    }

    pub(super) fn last(&self, id: &SessionId) -> Option<Sample> {
        self.kept().get(id).and_then(|ring| ring.back().copied())
    }
}

/// The task that measures. It ends with this.
#[derive(Debug)]
pub(crate) struct Sampler {
    _task: AbortOnDropHandle<()>,
}

impl Sampler {
    pub(crate) fn start(surface: &Arc<Surface>) -> Self {
        Self { _task: AbortOnDropHandle::new(tokio::spawn(measure(Arc::downgrade(surface)))) }
    }
}

async fn measure(surface: Weak<Surface>) {
    let mut clock = tokio::time::interval(EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut round = 0_u64;
    loop {
        clock.tick().await;
        let Some(surface) = surface.upgrade() else { return };
        surface.sample_all().await;
        if round.is_multiple_of(TIDY_EVERY) {
            surface.forget_secrets_left_behind().await;
        }
        round += 1;
    }
}

impl Surface {
    /// A host that stops has nothing to tell; the next round asks again.
    async fn sample_all(&self) {
        let filter = SessionFilter { with_usage: true, ..SessionFilter::default() };
        let Ok(sessions) = self.sessions(&filter).await else { return };
        let now = Timestamp::now();
        for session in &sessions {
            self.samples.take(session, now);
        }
        self.samples.retain(&sessions.into_iter().map(|session| session.id).collect());
    }

    /// Measures one sandbox of which nothing is known yet, so that whoever asks early is told something.
    pub(super) async fn sample_early(&self, id: &SessionId) {
        if self.samples.last(id).is_none()
            && let Ok(session) = self.host.get_session_with_usage(id).await
        {
            self.samples.take(&session, Timestamp::now());
        }
    }
}
