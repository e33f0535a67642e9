//! The host's end of the conversation with an init.

use std::{
    collections::HashMap,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::io::Errno;
use sandbar_core::{Error, ErrorCode, Result};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::{oneshot, watch},
};

use crate::protocol::{Connection, Ended, Event, ExecAnswer, ExecOrder, Incoming, Request, Stage, send_frame};

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
    /// One order at a time: init starts commands one after the other.
    orders: Mutex<Connection>,
    events: Arc<OwnedFd>,
    state: Arc<Mutex<State>>,
    gone: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct State {
    running: HashMap<u64, oneshot::Sender<Ended>>,
    is_gone: bool,
    /// The step of its set-up that failed, and the kernel's reason.
    broken: Option<(String, i32)>,
}

/// The two sockets between host and init: the host's ends and init's.
pub(crate) struct LinkSockets {
    pub(crate) ours: [UnixStream; 2],
    pub(crate) theirs: [UnixStream; 2],
}

impl LinkSockets {
    pub(crate) fn pair() -> io::Result<Self> {
        let (our_orders, their_orders) = UnixStream::pair()?;
        let (our_events, their_events) = UnixStream::pair()?;
        Ok(Self { ours: [our_orders, our_events], theirs: [their_orders, their_events] })
    }
}

impl InitLink {
    /// Waits until the box stands, then listens. Must be called inside a tokio runtime, on a thread that may block.
    pub(crate) fn open([orders, events]: [UnixStream; 2]) -> Result<Self> {
        events.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut connection = Connection::new(events.try_clone().map_err(failed)?.into());
        let body = connection.wait().map_err(failed)?;
        let body = body.ok_or_else(|| Error::internal("the sandbox ended while it was set up"))?;
        match Event::decode(&body).map_err(failed)? {
            Event::Ready => Self::begin([orders, events]),
            Event::Broken { step, errno } => Err(broken(&step.to_string_lossy(), errno)),
            Event::Exited { .. } => Err(Error::internal("the sandbox began with an end")),
        }
    }

    /// Listens at once: commands may be ordered while the box is still being set up, and tell when it could not be. Must
    /// be called inside a tokio runtime.
    pub(crate) fn begin([orders, events]: [UnixStream; 2]) -> Result<Self> {
        let events = OwnedFd::from(events);
        rustix::io::ioctl_fionbio(&events, true).map_err(|errno| failed(errno.into()))?;
        let state = Arc::new(Mutex::new(State::default()));
        let (gone_sender, gone) = watch::channel(false);
        // SAFETY: an `OwnedFd` keeps the same descriptor open until it is dropped with the registration.
        let readable =
            unsafe { AsyncFd::register_with_interest(events.try_clone().map_err(failed)?, Interest::READABLE) };
        tokio::spawn(listen(readable.map_err(|error| failed(error.into()))?, Arc::clone(&state), gone_sender));
        Ok(Self { orders: Mutex::new(Connection::new(orders.into())), events: Arc::new(events), state, gone })
    }

    /// Starts a command and waits until it runs. On a thread that may block.
    pub(crate) fn exec(
        &self,
        order: &ExecOrder,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<std::result::Result<StartedCommand, Refusal>> {
        let number = order.number;
        let body = order.encode();
        let (end_sender, ended) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.is_gone {
                return Err(state.reason());
            }
            state.running.insert(number, end_sender);
        }
        let answer = {
            let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
            orders.send(&body, descriptors).and_then(|()| orders.wait())
        };
        let answer = answer.and_then(|body| body.map(|body| ExecAnswer::decode(&body)).transpose());
        if let Ok(Some(ExecAnswer::Started { pid })) = answer {
            return Ok(Ok(StartedCommand { pid, ended }));
        }
        lock(&self.state).running.remove(&number);
        match answer {
            Ok(Some(ExecAnswer::NotStarted { stage, errno })) => Ok(Err((stage, io::Error::from_raw_os_error(errno)))),
            Ok(_) => Err(self.wait_for_reason()),
            Err(error) => match error.raw_os_error() {
                Some(libc::EPIPE | libc::ECONNRESET) => Err(self.wait_for_reason()),
                Some(libc::E2BIG) => Ok(Err((Stage::Exec, error))),
                _ => Err(Error::io("talk to the sandbox", error)),
            },
        }
    }

    /// Why there is no answer: the listener hears it at the same moment as we do.
    fn wait_for_reason(&self) -> Error {
        tokio::runtime::Handle::current().block_on(self.ended());
        lock(&self.state).reason()
    }

    /// Sends a request that has no answer.
    pub(crate) fn tell(&self, request: &Request) -> Result<()> {
        if self.is_gone() {
            return Err(lock(&self.state).reason());
        }
        send_frame(self.events.as_fd(), &request.encode(), &[]).map_err(|error| Error::io("talk to the sandbox", error))
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
        let _ = rustix::net::shutdown(&self.events, rustix::net::Shutdown::Write);
    }

    /// Waits until init has ended.
    pub(crate) async fn ended(&self) {
        let mut gone = self.gone.clone();
        let _ = gone.wait_for(|gone| *gone).await;
    }
}

impl Drop for InitLink {
    fn drop(&mut self) {
        // The listener holds the socket too.
        let _ = rustix::net::shutdown(&self.events, rustix::net::Shutdown::Both);
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
                Event::Exited { number, ended } => {
                    if let Some(waiting) = state.running.remove(&number) {
                        let _ = waiting.send(ended);
                    }
                }
                Event::Ready => {}
                Event::Broken { step, errno } => state.broken = Some((step.to_string_lossy().into_owned(), errno)),
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Why nothing can be asked of the box.
    fn reason(&self) -> Error {
        match &self.broken {
            Some((step, errno)) => broken(step, *errno),
            None => Error::new(ErrorCode::Unavailable, "the sandbox has ended unexpectedly")
                .with_hint("try again: a new one is started"),
        }
    }
}

fn broken(step: &str, errno: i32) -> Error {
    Error::io(format!("set up the sandbox: {step}"), io::Error::from_raw_os_error(errno))
}

fn failed(error: io::Error) -> Error {
    Error::io("set up the sandbox", error)
}
