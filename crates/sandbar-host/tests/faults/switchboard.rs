//! [`Switchboard`]: injects one fault into one call.

use std::sync::{Condvar, Mutex, MutexGuard};

use sandbar_core::{Error, Result};

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails before it did anything.
    Before,
    /// It fails after it did everything: the answer is a lie.
    After,
    /// It does not come back until the test lets it; then it does what it should.
    Hang,
    /// It succeeds with an answer that is not true, where there is one that makes sense.
    Wrong,
}

/// A call, by its name and the number of earlier calls with that name.
pub(crate) type Place = (&'static str, usize);

#[derive(Debug, Default)]
struct State {
    /// Names of the calls since the last [`Switchboard::listen`].
    calls: Vec<&'static str>,
    armed: Vec<(Place, Fault)>,
    fired: usize,
    hanging: usize,
    released: bool,
}

/// Every call of the faulty storage and runtime comes through here.
#[derive(Debug, Default)]
pub(crate) struct Switchboard {
    state: Mutex<State>,
    changed: Condvar,
}

impl Switchboard {
    /// Forgets what was armed and recorded, and counts calls from here on.
    pub(crate) fn listen(&self) {
        let mut state = self.lock();
        assert_eq!(state.hanging, 0, "a call still hangs");
        *state = State::default();
    }

    /// As [`listen`](Self::listen), with faults.
    pub(crate) fn arm(&self, faults: &[(Place, Fault)]) {
        self.listen();
        self.lock().armed = faults.to_vec();
    }

    /// Names of the calls made since `listen`, in order.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.lock().calls.clone()
    }

    /// Counts the faults injected so far.
    pub(crate) fn fired(&self) -> usize {
        self.lock().fired
    }

    /// Whether a call hangs now.
    pub(crate) fn hangs(&self) -> bool {
        self.lock().hanging > 0
    }

    /// Removes the fault for later calls. A call that hangs stays so.
    pub(crate) fn disarm(&self) {
        self.lock().armed.clear();
    }

    /// Releases calls that hang.
    pub(crate) fn release(&self) {
        self.lock().released = true;
        self.changed.notify_all();
    }

    /// Makes a call, with a fault when one is armed for it.
    pub(crate) fn around<T>(
        &self,
        name: &'static str,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match self.next(name) {
            Some(Fault::Before) => Err(injected(name)),
            Some(Fault::After) => call().and_then(|_| Err(injected(name))),
            Some(Fault::Hang) => {
                self.hang();
                call()
            }
            Some(Fault::Wrong) | None => call(),
        }
    }

    /// As [`around`](Self::around), for a call that can also lie: `wrong` gives the answer then.
    pub(crate) fn around_or<T>(
        &self,
        name: &'static str,
        call: impl FnOnce() -> Result<T>,
        wrong: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match self.next(name) {
            Some(Fault::Wrong) => wrong(),
            Some(Fault::Before) => Err(injected(name)),
            Some(Fault::After) => call().and_then(|_| Err(injected(name))),
            Some(Fault::Hang) => {
                self.hang();
                call()
            }
            None => call(),
        }
    }

    /// A call that cannot fail, only lie or hang.
    pub(crate) fn question(&self, name: &'static str, call: impl FnOnce() -> bool) -> bool {
        match self.next(name) {
            Some(Fault::Hang) => {
                self.hang();
                call()
            }
            Some(_) => !call(),
            None => call(),
        }
    }

    fn next(&self, name: &'static str) -> Option<Fault> {
        let mut state = self.lock();
        let place = (
            name,
            state
                .calls
                .iter()
                .filter(|earlier| **earlier == name)
                .count(),
        );
        state.calls.push(name);
        let position = state.armed.iter().position(|(armed, _)| *armed == place)?;
        state.fired += 1;
        Some(state.armed.remove(position).1)
    }

    fn hang(&self) {
        let mut state = self.lock();
        state.hanging += 1;
        while !state.released {
            state = self.changed.wait(state).unwrap();
        }
        state.hanging -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn injected(name: &str) -> Error {
    Error::internal(format!("injected fault in {name}"))
}
