//! Pool of containers that are started before a session needs them.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use sandbar_core::{MutexExt as _, Result};

use super::container::{Container, ContainerFactory};
use crate::BoxNetwork;

/// Pool of containers that wait for their trees. A thread refills it.
#[derive(Debug)]
pub(super) struct WarmPool {
    shared: Arc<Shared>,
    filler: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    factory: Arc<ContainerFactory>,
    network: BoxNetwork,
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Container>,
    /// Starting a container has failed. Retried after the next [`take`](WarmPool::take), whose
    /// caller starts its own container and gets the error.
    is_broken: bool,
    is_closed: bool,
}

impl WarmPool {
    pub(super) fn open(
        factory: Arc<ContainerFactory>,
        network: BoxNetwork,
        size: usize,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            factory,
            network,
            size,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let filler = if size > 0 {
            let shared = Arc::clone(&shared);
            Some(
                std::thread::Builder::new()
                    .name("warm-pool".into())
                    .spawn(move || shared.fill())?,
            )
        } else {
            None
        };
        Ok(Self {
            shared,
            filler: Mutex::new(filler),
        })
    }

    /// Takes a container from the pool, or starts one.
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
                // The container has ended meanwhile.
                Some(_) => {}
                None => return self.shared.factory.start(None, self.shared.network),
            }
        }
    }

    /// Destroys the containers in the pool and stops the refill thread.
    pub(super) fn close(&self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        let filler = self.filler.lock_unpoisoned().take();
        if filler.is_some_and(|filler| filler.join().is_err()) {
            tracing::warn!("thread that fills the pool of containers panicked");
        }
        // Without the lock, since destroying a container takes time.
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
        self.state.lock_unpoisoned()
    }

    fn fill(&self) {
        loop {
            let state = self.changed.wait_while(self.lock(), |state| {
                !state.is_closed && (state.is_broken || state.ready.len() >= self.size)
            });
            if state.unwrap_or_else(PoisonError::into_inner).is_closed {
                return;
            }
            match self.factory.start(None, self.network) {
                Ok(container) => self.lock().ready.push_back(container),
                Err(error) => {
                    tracing::warn!(
                        error = error.chain(),
                        "could not start a container for the pool"
                    );
                    self.lock().is_broken = true;
                }
            }
        }
    }
}
