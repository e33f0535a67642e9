//! Pool of native boxes that are created before a session needs them.
//!
//! Most of the setup of a box does not depend on its session: see [`box_setup`](super::box_setup).
//! A few boxes wait after that part, each in cgroups of its own, and exit when their sockets close.

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
use sandbar_core::{Error, MutexExt as _, Result};

use super::{launch::prepare, spawner::Spawner};
use crate::cgroup::{HostGroups, SessionLease};

/// Number of boxes in the pool.
const POOL_SIZE: usize = 2;

/// Delay between taking a box and creating the next one, so that the first command of the taken box
/// does not compete with it for processors and kernel locks.
const REFILL_DELAY: Duration = Duration::from_millis(3);

/// A box that waits for its order. The order of the fields matters: dropping the sockets ends the
/// box, and dropping the cgroups waits for its end.
#[derive(Debug)]
pub(super) struct PreparedBox {
    pub(super) sockets: [UnixStream; 2],
    pub(super) groups: Option<SessionLease>,
    pub(super) network: OwnedFd,
}

impl PreparedBox {
    /// Returns whether the box still waits. Otherwise its event socket is readable: it has failed
    /// or exited.
    fn is_waiting(&self) -> bool {
        let [_, events] = &self.sockets;
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&now)).is_ok_and(|count| count == 0)
    }
}

/// Pool of prepared boxes. A thread, which starts with the first session, refills it.
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
    /// Creating a box has failed. Retried after the next [`take`](PreparedBoxes::take), whose
    /// caller creates its own box and reports the error.
    is_broken: bool,
    is_closed: bool,
}

impl PreparedBoxes {
    pub(super) fn new(spawner: Arc<Spawner>, groups: Option<Arc<HostGroups>>) -> Self {
        Self {
            shared: Arc::new(Shared {
                spawner,
                groups,
                state: Mutex::default(),
                changed: Condvar::new(),
            }),
        }
    }

    /// Takes a prepared box, if there is one. Does not block.
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
            // The box has exited meanwhile.
        }
    }

    /// Blocks until the pool is full or a box could not be created.
    pub(super) fn warm_up(&self) {
        let mut state = self.shared.lock();
        self.wake(&mut state);
        drop(
            self.shared
                .changed
                .wait_while(state, |state| state.needs_boxes()),
        );
    }

    /// Wakes the refill thread, and starts it if needed.
    fn wake(&self, state: &mut State) {
        state.is_broken = false;
        if state.filler.is_none() && !state.is_closed {
            let shared = Arc::clone(&self.shared);
            match std::thread::Builder::new()
                .name("prepared-boxes".into())
                .spawn(move || shared.fill())
            {
                Ok(filler) => state.filler = Some(filler),
                Err(error) => {
                    tracing::warn!(%error, "could not start the thread that prepares boxes");
                    state.is_broken = true;
                }
            }
        }
        self.shared.changed.notify_all();
    }

    /// Ends the boxes in the pool and stops the refill thread.
    pub(super) fn close(&self) {
        let filler = {
            let mut state = self.shared.lock();
            state.is_closed = true;
            state.filler.take()
        };
        self.shared.changed.notify_all();
        if filler.is_some_and(|filler| filler.join().is_err()) {
            tracing::warn!("thread that prepares boxes panicked");
        }
        // Without the lock, since dropping a box waits for its end.
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
    fn needs_boxes(&self) -> bool {
        !self.is_closed && !self.is_broken && self.ready.len() < POOL_SIZE
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock_unpoisoned()
    }

    fn fill(&self) {
        loop {
            let state = self.changed.wait_while(self.lock(), |state| {
                !state.is_closed && !state.needs_boxes()
            });
            let state = state.unwrap_or_else(PoisonError::into_inner);
            let waited = self
                .changed
                .wait_timeout_while(state, REFILL_DELAY, |state| !state.is_closed);
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
        let groups =
            groups.map_err(|error| Error::io("create the cgroups of a prepared box", error))?;
        let network = self
            .spawner
            .network()
            .map_err(|error| Error::io("create the network of a prepared box", error))?;
        let sockets = prepare(&self.spawner, groups.as_deref(), network.as_fd())?;
        Ok(PreparedBox {
            sockets,
            groups,
            network,
        })
    }
}
