//! Containers that were started before anybody asked for one.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use sandbar_core::Result;

use super::container::{Container, Workshop};
use crate::BoxNetwork;

/// Keeps a few containers waiting for their trees. A thread of its own starts the next one whenever one was taken.
#[derive(Debug)]
pub(super) struct WarmPool {
    shared: Arc<Shared>,
    filler: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    workshop: Arc<Workshop>,
    network: BoxNetwork,
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Container>,
    /// Starting one has failed. It is tried again after somebody has asked, and been told why.
    is_broken: bool,
    is_closed: bool,
}

impl WarmPool {
    pub(super) fn open(workshop: Arc<Workshop>, network: BoxNetwork, size: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { workshop, network, size, state: Mutex::default(), changed: Condvar::new() });
        let filler = if size > 0 {
            let shared = Arc::clone(&shared);
            Some(std::thread::Builder::new().name("warm-pool".into()).spawn(move || shared.fill())?)
        } else {
            None
        };
        Ok(Self { shared, filler: Mutex::new(filler) })
    }

    /// A container that waits for its tree; one that was started before, if there is one.
    pub(super) fn take(&self) -> Result<Container> {
        loop {
            let next = {
                let mut state = self.shared.lock();
                state.is_broken = false;
                state.ready.pop_front()
            };
            self.shared.changed.notify_all();
            match next {
                Some(container) if container.is_alive() => return Ok(container),
                // It has ended while it waited.
                Some(_) => {}
                None => return self.shared.workshop.start(None, self.shared.network),
            }
        }
    }

    /// Ends the containers nobody took, and lets no new ones be made.
    pub(super) fn close(&self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        let filler = self.filler.lock().unwrap_or_else(PoisonError::into_inner).take();
        if filler.is_some_and(|filler| filler.join().is_err()) {
            tracing::warn!("the thread that fills the pool of containers panicked");
        }
        // Out of the lock: ending a container takes a while.
        let ready = std::mem::take(&mut self.shared.lock().ready);
        drop(ready);
    }
}

impl Drop for WarmPool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self) {
        loop {
            let state = self.changed.wait_while(self.lock(), |state| {
                !state.is_closed && (state.is_broken || state.ready.len() >= self.size)
            });
            if state.unwrap_or_else(PoisonError::into_inner).is_closed {
                return;
            }
            match self.workshop.start(None, self.network) {
                Ok(container) => self.lock().ready.push_back(container),
                Err(error) => {
                    tracing::warn!(error = error.chain(), "could not start a container ahead");
                    self.lock().is_broken = true;
                }
            }
        }
    }
}
