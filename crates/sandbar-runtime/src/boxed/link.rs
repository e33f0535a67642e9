//! The host's end of the conversation with an init.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::sockopt::{Timeout, set_socket_timeout},
};
use sandbar_core::{Error, ErrorCode, Result};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::{oneshot, watch},
};

use crate::protocol::{Connection, Ended, Event, ExecOrder, Incoming, Request, Stage, send_frame};

/// How long a box may take to stand.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command that could not start: what it was doing, and the kernel's reason.
pub(crate) type Refusal = (Stage, io::Error);

/// A command that was started.
#[derive(Debug)]
pub(crate) struct StartedCommand {
    pub(crate) pid: u32,
    /// Resolves when it has ended; an error when its box is gone.
    pub(crate) ended: oneshot::Receiver<Ended>,
}

#[derive(Debug)]
pub(crate) struct InitLink {
    /// Another one after the box has moved.
    socket: Mutex<Arc<OwnedFd>>,
    /// Held by whoever sends, so that frames do not mix, and while the box moves.
    sending: Mutex<()>,
    state: Arc<Mutex<State>>,
    gone: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct State {
    starting: HashMap<u64, oneshot::Sender<std::result::Result<u32, Refusal>>>,
    running: HashMap<u64, oneshot::Sender<Ended>>,
    pong: Option<oneshot::Sender<()>>,
    /// While the box moves: what is to be sent when it has arrived.
    held_back: Option<Vec<Vec<u8>>>,
    /// While the box moves: the socket the conversation goes on with.
    successor: Option<oneshot::Receiver<OwnedFd>>,
    is_gone: bool,
}

impl InitLink {
    /// Waits until the box stands, then listens. Must be called inside a tokio runtime, on a thread that may block.
    pub(crate) fn open(socket: OwnedFd) -> Result<Self> {
        wait_until_ready(&socket)?;
        Self::listen_on(socket)
    }

    /// Goes on with an init that has been serving before.
    pub(crate) fn resume(socket: OwnedFd) -> Result<Self> {
        let link = Self::listen_on(socket)?;
        let sending = link.sending.lock().unwrap_or_else(PoisonError::into_inner);
        link.wait_for_pong()?;
        drop(sending);
        Ok(link)
    }

    fn listen_on(socket: OwnedFd) -> Result<Self> {
        let failed = |error: io::Error| Error::io("listen to the sandbox", error);
        let readable = register(socket.try_clone().map_err(failed)?).map_err(failed)?;
        let state = Arc::new(Mutex::new(State::default()));
        let (gone_sender, gone) = watch::channel(false);
        tokio::spawn(listen(readable, Arc::clone(&state), gone_sender));
        Ok(Self { socket: Mutex::new(Arc::new(socket)), sending: Mutex::default(), state, gone })
    }

    fn socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn send(&self, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        send_frame(self.socket().as_fd(), frame, descriptors)
    }

    /// Waits until init has obeyed everything it was sent. The caller holds `sending`.
    fn wait_for_pong(&self) -> Result<()> {
        let (sender, pong) = oneshot::channel();
        lock(&self.state).pong = Some(sender);
        send_frame(self.socket().as_fd(), &Request::Ping.encode(), &[])
            .map_err(|error| Error::io("talk to the sandbox", error))?;
        let waiting = async { tokio::time::timeout(PATIENCE, pong).await };
        match tokio::runtime::Handle::current().block_on(waiting) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(Error::new(ErrorCode::Timeout, "the sandbox does not answer")),
        }
    }

    /// Has the box move: `transfer` ends it where it is and returns the socket it is reached through from then on. What
    /// runs in it goes on, and what was sent to it before has been obeyed. On a thread that may block.
    pub(crate) fn relocate(&self, transfer: impl FnOnce() -> Result<OwnedFd>) -> Result<()> {
        lock(&self.state).held_back = Some(Vec::new());
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = self.wait_for_pong().and_then(|()| self.hand_over(transfer));
        let held_back = lock(&self.state).held_back.take().unwrap_or_default();
        for frame in held_back {
            // Who sent it has been told already; when nobody is there any more, everything has ended.
            let _ = send_frame(self.socket().as_fd(), &frame, &[]);
        }
        drop(sending);
        outcome
    }

    fn hand_over(&self, transfer: impl FnOnce() -> Result<OwnedFd>) -> Result<()> {
        let (sender, successor) = oneshot::channel();
        lock(&self.state).successor = Some(successor);
        let arrived = transfer().and_then(|socket| {
            let ours = socket.try_clone().map_err(|error| Error::io("listen to the sandbox", error))?;
            Ok((socket, ours))
        });
        match arrived {
            Ok((socket, ours)) => {
                *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(ours);
                let _ = sender.send(socket);
                self.wait_for_pong()
            }
            Err(error) => {
                // Either the box never left, or the listener finds the sender dropped.
                lock(&self.state).successor = None;
                Err(error)
            }
        }
    }

    /// Starts a command and waits until it runs. On a thread that may block.
    pub(crate) fn exec(
        &self,
        order: ExecOrder,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<std::result::Result<StartedCommand, Refusal>> {
        let number = order.number;
        let (start_sender, start) = oneshot::channel();
        let (end_sender, ended) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.is_gone {
                return Err(gone());
            }
            state.starting.insert(number, start_sender);
            state.running.insert(number, end_sender);
        }
        if let Err(error) = self.send(&Request::Exec(order).encode(), descriptors) {
            let mut state = lock(&self.state);
            state.starting.remove(&number);
            state.running.remove(&number);
            return Err(if error.kind() == io::ErrorKind::BrokenPipe {
                gone()
            } else {
                Error::io("talk to the sandbox", error)
            });
        }
        match start.blocking_recv() {
            Ok(Ok(pid)) => Ok(Ok(StartedCommand { pid, ended })),
            Ok(Err(refusal)) => Ok(Err(refusal)),
            Err(_) => Err(gone()),
        }
    }

    /// Sends a request that has no answer.
    pub(crate) fn tell(&self, request: &Request) -> Result<()> {
        let frame = request.encode();
        {
            let mut state = lock(&self.state);
            if state.is_gone {
                return Err(gone());
            }
            if let Some(held_back) = &mut state.held_back {
                held_back.push(frame);
                return Ok(());
            }
        }
        self.send(&frame, &[]).map_err(|error| Error::io("talk to the sandbox", error))
    }

    /// Whether the command was started and has not ended.
    pub(crate) fn is_running(&self, number: u64) -> bool {
        lock(&self.state).running.contains_key(&number)
    }

    pub(crate) fn is_gone(&self) -> bool {
        lock(&self.state).is_gone
    }

    /// Tells init that nobody is there any more, upon which it ends everything.
    pub(crate) fn hang_up(&self) {
        let _ = rustix::net::shutdown(self.socket(), rustix::net::Shutdown::Write);
    }

    /// Waits until init has ended.
    pub(crate) async fn ended(&self) {
        let mut gone = self.gone.clone();
        let _ = gone.wait_for(|gone| *gone).await;
    }
}

/// Waits until the box stands.
pub(crate) fn wait_until_ready(socket: &OwnedFd) -> Result<()> {
    let failed = |error: io::Error| Error::io("set up the sandbox", error);
    set_socket_timeout(socket, Timeout::Recv, Some(PATIENCE)).map_err(|errno| failed(errno.into()))?;
    let mut connection = Connection::new(socket.try_clone().map_err(failed)?);
    let body = connection.wait().map_err(failed)?;
    let body = body.ok_or_else(|| Error::internal("the sandbox ended while it was set up"))?;
    match Event::decode(&body).map_err(failed)? {
        Event::Ready => Ok(()),
        Event::Broken { step, errno } => {
            let cause = io::Error::from_raw_os_error(errno);
            Err(Error::io(format!("set up the sandbox: {}", step.to_string_lossy()), cause))
        }
        _ => Err(Error::internal("the sandbox began with something else than being ready")),
    }
}

impl Drop for InitLink {
    fn drop(&mut self) {
        // The listener holds the socket too.
        let _ = rustix::net::shutdown(self.socket(), rustix::net::Shutdown::Both);
    }
}

/// Hands events to those who wait for them until init is gone.
async fn listen(mut socket: AsyncFd<OwnedFd>, state: Arc<Mutex<State>>, gone: watch::Sender<bool>) {
    // Kept when the box moves: a frame may begin before and end after.
    let mut incoming = Incoming::default();
    loop {
        let next = match hear(&socket, &mut incoming, &state).await {
            Ok(()) => next_socket(&state).await,
            Err(error) => Err(error),
        };
        match next {
            Ok(Some(next)) => socket = next,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "lost the conversation with a sandbox");
                break;
            }
        }
    }
    let mut state = lock(&state);
    state.is_gone = true;
    state.pong = None;
    state.starting.clear();
    state.running.clear();
    let _ = gone.send(true);
}

/// Where the conversation goes on; `None` when the box has not moved but ended.
async fn next_socket(state: &Mutex<State>) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let successor = lock(state).successor.take();
    match successor {
        Some(successor) => successor.await.ok().map(register).transpose(),
        None => Ok(None),
    }
}

fn register(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    // SAFETY: an `OwnedFd` keeps the same descriptor open until it is dropped with the registration.
    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.map_err(Into::into)
}

async fn hear(socket: &AsyncFd<OwnedFd>, incoming: &mut Incoming, state: &Mutex<State>) -> io::Result<()> {
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
                Event::Started { number, pid } => {
                    if let Some(waiting) = state.starting.remove(&number) {
                        let _ = waiting.send(Ok(pid));
                    }
                }
                Event::NotStarted { number, stage, errno } => {
                    state.running.remove(&number);
                    if let Some(waiting) = state.starting.remove(&number) {
                        let _ = waiting.send(Err((stage, io::Error::from_raw_os_error(errno))));
                    }
                }
                Event::Exited { number, ended } => {
                    if let Some(waiting) = state.running.remove(&number) {
                        let _ = waiting.send(ended);
                    }
                }
                Event::Pong => {
                    if let Some(waiting) = state.pong.take() {
                        let _ = waiting.send(());
                    }
                }
                Event::Ready => {}
                Event::Broken { step, errno } => {
                    let cause = io::Error::from_raw_os_error(errno);
                    return Err(io::Error::other(format!("{}: {cause}", step.to_string_lossy())));
                }
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> Error {
    Error::new(ErrorCode::Unavailable, "the sandbox has ended unexpectedly")
        .with_hint("try again: a new one is started")
}
