//! Boxes that were made before anybody asked for one.
//!
//! Most of what making a box takes does not depend on the session that gets it: see
//! [`box_setup`](super::box_setup). A few boxes wait there, each in groups of its own, and end when their sockets close.

use std::{
    collections::VecDeque,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbar_core::{Error, Result};

use super::{launch::prepare, spawner::Spawner};
use crate::cgroup::{HostGroups, SessionLease};

/// How many wait.
const READY: usize = 2;

/// So long after a box was taken the next one is made: whoever took it and starts a command in it is through by then, and
/// does not compete with it for processors and the kernel's locks.
const BREATH: Duration = Duration::from_millis(3);

/// A box that waits for its order. Fields are dropped in order: it ends when its sockets close, and its groups wait for
/// its end.
#[derive(Debug)]
pub(super) struct PreparedBox {
    pub(super) sockets: [UnixStream; 2],
    pub(super) groups: Option<SessionLease>,
    pub(super) network: OwnedFd,
}

impl PreparedBox {
    /// One that waits has nothing to say.
    fn is_waiting(&self) -> bool {
        let [_, events] = &self.sockets;
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&now)).is_ok_and(|count| count == 0)
    }
}

/// Keeps a few boxes waiting. A thread of its own, which begins when the first session comes, has the next one made
/// whenever one was taken.
#[derive(Debug)]
pub(super) struct PreparedBoxes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spawner: Arc<Spawner>,
    groups: Option<Arc<HostGroups>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<PreparedBox>,
    filler: Option<JoinHandle<()>>,
    /// Making one has failed. It is tried again after somebody has asked, and been told why.
    is_broken: bool,
    is_closed: bool,
}

impl PreparedBoxes {
    pub(super) fn new(spawner: Arc<Spawner>, groups: Option<Arc<HostGroups>>) -> Self {
        Self { shared: Arc::new(Shared { spawner, groups, state: Mutex::default(), changed: Condvar::new() }) }
    }

    /// A box that waits, if there is one. Never waits itself.
    pub(super) fn take(&self) -> Option<PreparedBox> {
        loop {
            let next = {
                let mut state = self.shared.lock();
                self.wake(&mut state);
                state.ready.pop_front()?
            };
            if next.is_waiting() {
                return Some(next);
            }
            // It has ended while it waited.
        }
    }

    /// Returns when as many wait as should, or no more can be made.
    pub(super) fn warm_up(&self) {
        let mut state = self.shared.lock();
        self.wake(&mut state);
        drop(self.shared.changed.wait_while(state, |state| state.is_wanting()));
    }

    /// Lets the filler look, and begins it when there is none yet.
    fn wake(&self, state: &mut State) {
        state.is_broken = false;
        if state.filler.is_none() && !state.is_closed {
            let shared = Arc::clone(&self.shared);
            match std::thread::Builder::new().name("prepared-boxes".into()).spawn(move || shared.fill()) {
                Ok(filler) => state.filler = Some(filler),
                Err(error) => {
                    tracing::warn!(%error, "could not start the thread that prepares boxes");
                    state.is_broken = true;
                }
            }
        }
        self.shared.changed.notify_all();
    }

    /// Ends the boxes nobody took, and lets no new ones be made.
    pub(super) fn close(&self) {
        let filler = {
            let mut state = self.shared.lock();
            state.is_closed = true;
            state.filler.take()
        };
        self.shared.changed.notify_all();
        if filler.is_some_and(|filler| filler.join().is_err()) {
            tracing::warn!("the thread that prepares boxes panicked");
        }
        // Out of the lock: their end is waited for.
        let ready = std::mem::take(&mut self.shared.lock().ready);
        drop(ready);
    }
}

impl Drop for PreparedBoxes {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    fn is_wanting(&self) -> bool {
        !self.is_closed && !self.is_broken && self.ready.len() < READY
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self) {
        loop {
            let state = self.changed.wait_while(self.lock(), |state| !state.is_closed && !state.is_wanting());
            let state = state.unwrap_or_else(PoisonError::into_inner);
            let waited = self.changed.wait_timeout_while(state, BREATH, |state| !state.is_closed);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_closed {
                return;
            }
            drop(state);
            let made = self.make();
            let mut state = self.lock();
            match made {
                Ok(made) => state.ready.push_back(made),
                Err(error) => {
                    tracing::warn!(error = error.chain(), "could not prepare a box");
                    state.is_broken = true;
                }
            }
            self.changed.notify_all();
        }
    }

    fn make(&self) -> Result<PreparedBox> {
        let groups = self.groups.as_ref().map(HostGroups::session).transpose();
        let groups = groups.map_err(|error| Error::io("make the cgroups of a session to come", error))?;
        let network =
            self.spawner.network().map_err(|error| Error::io("make a network for a session to come", error))?;
        let sockets = prepare(&self.spawner, groups.as_deref(), network.as_fd())?;
        Ok(PreparedBox { sockets, groups, network })
    }
}
