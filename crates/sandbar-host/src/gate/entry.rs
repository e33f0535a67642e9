//! Places in a session. Each is left when it is dropped, however that comes about.

use std::sync::Arc;

use super::admission::Gate;

/// A place beside others.
#[derive(Debug)]
pub(crate) struct SharedEntry {
    gate: Arc<Gate>,
}

impl SharedEntry {
    /// For somebody who is counted as inside.
    pub(super) fn new(gate: &Arc<Gate>) -> Self {
        Self { gate: Arc::clone(gate) }
    }
}

impl Drop for SharedEntry {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.shared -= 1;
        let last = state.shared == 0;
        drop(state);
        if last {
            self.gate.tell_waiting();
        }
    }
}

/// The session alone.
#[derive(Debug)]
pub(crate) struct ExclusiveEntry {
    gate: Arc<Gate>,
    gone: bool,
    /// Keeps everybody else out, when this is for destruction.
    _destroyer: Option<Destroyer>,
}

impl ExclusiveEntry {
    /// For somebody who has shut the gate.
    pub(super) fn new(gate: &Arc<Gate>, destroyer: Option<Destroyer>) -> Self {
        Self { gate: Arc::clone(gate), gone: false, _destroyer: destroyer }
    }

    /// The session is no more: whoever waits, and whoever comes, is told so.
    pub(crate) fn leave_for_good(mut self) {
        self.gone = true;
    }
}

impl Drop for ExclusiveEntry {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.exclusive = None;
        state.gone |= self.gone;
        drop(state);
        self.gate.tell_waiting();
    }
}

/// Somebody who destroys the session, or waits for the turn to. Keeps everybody else out.
#[derive(Debug)]
pub(super) struct Destroyer {
    gate: Arc<Gate>,
}

impl Destroyer {
    pub(super) fn announce(gate: &Arc<Gate>) -> Self {
        gate.lock().destroyers += 1;
        Self { gate: Arc::clone(gate) }
    }
}

impl Drop for Destroyer {
    /// Nobody waits for this: who is kept out is refused.
    fn drop(&mut self) {
        self.gate.lock().destroyers -= 1;
    }
}
