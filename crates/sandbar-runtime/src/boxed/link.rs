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
    socket: Arc<OwnedFd>,
    state: Arc<Mutex<State>>,
    gone: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct State {
    starting: HashMap<u64, oneshot::Sender<std::result::Result<u32, Refusal>>>,
    running: HashMap<u64, oneshot::Sender<Ended>>,
    is_gone: bool,
}

impl InitLink {
    /// Waits until the box stands, then listens. Must be called inside a tokio runtime, on a thread that may block.
    pub(crate) fn open(socket: OwnedFd) -> Result<Self> {
        let failed = |error: io::Error| Error::io("set up the sandbox", error);
        let socket = Arc::new(socket);
        wait_until_ready(&socket)?;
        rustix::io::ioctl_fionbio(&socket, true).map_err(|errno| failed(errno.into()))?;
        let state = Arc::new(Mutex::new(State::default()));
        let (gone_sender, gone) = watch::channel(false);
        // SAFETY: an `OwnedFd` keeps the same descriptor open until it is dropped with the registration.
        let readable =
            unsafe { AsyncFd::register_with_interest(socket.try_clone().map_err(failed)?, Interest::READABLE) };
        tokio::spawn(listen(readable.map_err(|error| failed(error.into()))?, Arc::clone(&state), gone_sender));
        Ok(Self { socket, state, gone })
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
        if let Err(error) = send_frame(self.socket.as_fd(), &Request::Exec(order).encode(), descriptors) {
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
        if self.is_gone() {
            return Err(gone());
        }
        send_frame(self.socket.as_fd(), &request.encode(), &[]).map_err(|error| Error::io("talk to the sandbox", error))
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
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
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
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

/// Hands events to those who wait for them until init is gone.
async fn listen(socket: AsyncFd<OwnedFd>, state: Arc<Mutex<State>>, gone: watch::Sender<bool>) {
    let mut incoming = Incoming::default();
    if let Err(error) = hear(&socket, &mut incoming, &state).await {
        tracing::warn!(%error, "lost the conversation with a sandbox");
    }
    let mut state = lock(&state);
    state.is_gone = true;
    state.starting.clear();
    state.running.clear();
    let _ = gone.send(true);
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
