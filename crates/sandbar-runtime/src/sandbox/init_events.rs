//! Task that reads the events of an init and dispatches them to waiting callers.

#![expect(
    unsafe_code,
    reason = "`AsyncFd::register` needs a descriptor that stays open"
)]

use std::{
    collections::{HashMap, VecDeque},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rustix::io::Errno;
use sandbar_core::{Error, MutexExt as _, Result};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::{Notify, OwnedSemaphorePermit, oneshot, watch},
};

use super::init_link::{does_not_read, gone, setup_failed};
use crate::protocol::{Ended, Event, Incoming, Request, send_frame_within};

/// Limits the requests that wait until init reads them.
const MAX_UNSENT_REQUESTS: usize = 1024;

/// State shared by an [`InitLink`](super::InitLink) and its event reader.
#[derive(Debug, Default)]
pub(super) struct LinkState {
    pub(super) running: HashMap<u64, oneshot::Sender<Ended>>,
    /// Callers waiting for a report, in the order of their requests.
    pub(super) reports: VecDeque<oneshot::Sender<u64>>,
    /// Dial requests without an answer, including those whose caller has given up.
    pub(super) dials: HashMap<u64, PendingDial>,
    /// Requests that are not sent yet, in order: init does not read, or the box is being relocated.
    pub(super) unsent: VecDeque<Vec<u8>>,
    /// Set during a relocation: nothing of `unsent` is sent.
    pub(super) is_relocating: bool,
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

impl LinkState {
    /// Appends a request. Refuses when init has not read [`MAX_UNSENT_REQUESTS`], except to kill a
    /// command: a command that is not killed would outlive its deadline.
    pub(super) fn queue(&mut self, request: &Request) -> Result<()> {
        let frame = request.encode();
        match request {
            // Once for each command, which bounds these by the number of commands.
            Request::Kill { .. } if self.unsent.contains(&frame) => return Ok(()),
            Request::Kill { .. } => {}
            _ if self.unsent.len() >= MAX_UNSENT_REQUESTS => return Err(does_not_read()),
            _ => {}
        }
        self.unsent.push_back(frame);
        Ok(())
    }

    /// Sends what the socket takes without waiting. Returns whether anything is left that will be
    /// taken later.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>) -> bool {
        if self.is_relocating {
            return false;
        }
        while let Some(frame) = self.unsent.front() {
            match send_frame_within(Some(Duration::ZERO), socket, frame, &[]) {
                Ok(()) => drop(self.unsent.pop_front()),
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return true,
                // The box is gone, and its commands with it; the event reader finds out.
                Err(_) => self.unsent.clear(),
            }
        }
        false
    }
}

pub(super) fn lock(state: &Mutex<LinkState>) -> MutexGuard<'_, LinkState> {
    state.lock_unpoisoned()
}

/// Registers a socket with tokio, for reading and writing.
pub(super) fn register(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    // SAFETY: an `OwnedFd` keeps the same descriptor open until it is dropped with the
    // registration.
    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE | Interest::WRITABLE) }
        .map_err(Into::into)
}

/// Dispatches events until init is gone. Sends the requests that init did not read at once, when
/// `queued` is signalled and when init reads again.
pub(super) async fn read_events(
    mut socket: AsyncFd<OwnedFd>,
    state: Arc<Mutex<LinkState>>,
    queued: Arc<Notify>,
    gone: watch::Sender<bool>,
) {
    // Kept over a relocation: a frame may begin on the old socket and end on the new one.
    let mut incoming = Incoming::from_box();
    loop {
        let next = match read_until_closed(&socket, &mut incoming, &state, &queued).await {
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
    state.unsent.clear();
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
    queued: &Notify,
) -> io::Result<()> {
    let mut has_unsent = false;
    loop {
        let mut ready = tokio::select! {
            ready = socket.readable() => ready?,
            () = queued.notified() => {
                has_unsent = lock(state).flush(socket.as_fd());
                continue;
            }
            writable = socket.writable(), if has_unsent => {
                let mut writable = writable?;
                has_unsent = lock(state).flush(socket.as_fd());
                if has_unsent {
                    writable.clear_ready();
                }
                continue;
            }
        };
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
