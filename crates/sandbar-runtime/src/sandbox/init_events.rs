//! Task that reads the events of an init and dispatches them to waiting callers.

#![expect(
    unsafe_code,
    reason = "`AsyncFd::register` needs a descriptor that stays open"
)]

use std::{
    collections::{HashMap, VecDeque},
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard},
};

use rustix::io::Errno;
use sandbar_core::{Error, MutexExt as _};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::{OwnedSemaphorePermit, oneshot, watch},
};

use super::init_link::{gone, setup_failed};
use crate::protocol::{Ended, Event, Incoming};

/// State shared by an [`InitLink`](super::InitLink) and its event reader.
#[derive(Debug, Default)]
pub(super) struct LinkState {
    pub(super) running: HashMap<u64, oneshot::Sender<Ended>>,
    /// Callers waiting for a report, in the order of their requests.
    pub(super) reports: VecDeque<oneshot::Sender<u64>>,
    /// Dial requests without an answer, including those whose caller has given up.
    pub(super) dials: HashMap<u64, PendingDial>,
    /// During a relocation: requests to send afterwards.
    pub(super) held_back: Option<Vec<Vec<u8>>>,
    /// During a relocation: the next event socket.
    pub(super) successor: Option<oneshot::Receiver<OwnedFd>>,
    pub(super) is_gone: bool,
    /// Failed step of the setup, and its errno.
    setup_failure: Option<(String, i32)>,
}

#[derive(Debug)]
pub(super) struct PendingDial {
    pub(super) answer: oneshot::Sender<i32>,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl LinkState {
    /// Returns the error for calls to a box that is gone.
    pub(super) fn gone_error(&self) -> Error {
        match &self.setup_failure {
            Some((step, errno)) => setup_failed(step, *errno),
            None => gone(),
        }
    }
}

pub(super) fn lock(state: &Mutex<LinkState>) -> MutexGuard<'_, LinkState> {
    state.lock_unpoisoned()
}

/// Registers a socket for reading with tokio.
pub(super) fn register(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    // SAFETY: an `OwnedFd` keeps the same descriptor open until it is dropped with the
    // registration.
    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.map_err(Into::into)
}

/// Dispatches events until init is gone.
pub(super) async fn read_events(
    mut socket: AsyncFd<OwnedFd>,
    state: Arc<Mutex<LinkState>>,
    gone: watch::Sender<bool>,
) {
    // Kept over a relocation: a frame may begin on the old socket and end on the new one.
    let mut incoming = Incoming::from_box();
    loop {
        let next = match read_until_closed(&socket, &mut incoming, &state).await {
            Ok(()) => next_socket(&state).await,
            Err(error) => Err(error),
        };
        match next {
            Ok(Some(next)) => socket = next,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "lost the connection to a sandbox");
                break;
            }
        }
    }
    let mut state = lock(&state);
    state.is_gone = true;
    state.reports.clear();
    state.dials.clear();
    state.running.clear();
    let _ = gone.send(true);
}

/// Returns the socket to continue with, or `None` if the box has ended and is not relocated.
async fn next_socket(state: &Mutex<LinkState>) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let successor = lock(state).successor.take();
    match successor {
        Some(successor) => successor.await.ok().map(register).transpose(),
        None => Ok(None),
    }
}

async fn read_until_closed(
    socket: &AsyncFd<OwnedFd>,
    incoming: &mut Incoming,
    state: &Mutex<LinkState>,
) -> io::Result<()> {
    loop {
        let mut ready = socket.readable().await?;
        match incoming.receive(socket.as_fd()) {
            Ok(true) | Err(Errno::INTR) => {}
            Ok(false) | Err(Errno::CONNRESET) => return Ok(()),
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(errno) => return Err(errno.into()),
        }
        while let Some(body) = incoming.next_frame()? {
            let mut state = lock(state);
            match Event::decode(&body)? {
                Event::Exited { number, ended } => {
                    if let Some(waiting) = state.running.remove(&number) {
                        let _ = waiting.send(ended);
                    }
                }
                Event::Report { processes } => {
                    if let Some(waiting) = state.reports.pop_front() {
                        let _ = waiting.send(processes);
                    }
                }
                Event::Dialed { number, errno } => {
                    if let Some(waiting) = state.dials.remove(&number) {
                        let _ = waiting.answer.send(errno);
                    }
                }
                Event::Ready => {}
                Event::SetupFailed { step, errno } => {
                    state.setup_failure = Some((step.to_string_lossy().into_owned(), errno));
                }
            }
        }
    }
}
