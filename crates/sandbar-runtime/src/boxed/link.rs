//! The host's end of the conversation with an init.

use std::{
    collections::{HashMap, VecDeque},
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
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    time::{Instant, timeout_at},
};

use crate::protocol::{
    Connection, Ended, Event, ExecAnswer, ExecOrder, Incoming, PrepareOrder, Request, Stage, send_frame,
};

/// How long a box may take to stand.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long init may take to start a command. It waits until the program is loaded, which the sandbox can hold up.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// So many connections may be asked for and not answered yet: fewer than the socket holds when nobody listens to it, as
/// in a frozen box.
const MOST_UNANSWERED: usize = 64;

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
    /// Another one after the box has moved.
    events: Mutex<Arc<OwnedFd>>,
    /// Held by who asks for a report.
    asking: Mutex<()>,
    /// Whoever asks for a connection takes one; init's answer brings it back.
    dialing: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
    gone: watch::Receiver<bool>,
}

#[derive(Debug, Default)]
struct State {
    running: HashMap<u64, oneshot::Sender<Ended>>,
    /// Those who wait for a report, in the order they asked.
    reports: VecDeque<oneshot::Sender<u64>>,
    /// Connections init has been asked for and has not answered, also those nobody waits for any more.
    dials: HashMap<u64, Dial>,
    /// While the box moves: requests to be sent when it has arrived.
    held_back: Option<Vec<Vec<u8>>>,
    /// While the box moves: the socket events come through from then on.
    successor: Option<oneshot::Receiver<OwnedFd>>,
    is_gone: bool,
    /// The step of its set-up that failed, and the kernel's reason.
    broken: Option<(String, i32)>,
}

#[derive(Debug)]
struct Dial {
    answer: oneshot::Sender<i32>,
    _turn: OwnedSemaphorePermit,
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
    pub(crate) fn open(sockets: [UnixStream; 2]) -> Result<Self> {
        wait_until_ready(&sockets)?;
        Self::begin(sockets)
    }

    /// Goes on with an init that has been serving before.
    pub(crate) fn resume(sockets: [UnixStream; 2]) -> Result<Self> {
        let link = Self::begin(sockets)?;
        link.settle()?;
        Ok(link)
    }

    /// Listens at once: commands may be ordered while the box is still being set up, and tell when it could not be. Must
    /// be called inside a tokio runtime.
    pub(crate) fn begin(sockets: [UnixStream; 2]) -> Result<Self> {
        Self::begin_within(START_TIMEOUT, sockets)
    }

    fn begin_within(start_timeout: Duration, [orders, events]: [UnixStream; 2]) -> Result<Self> {
        let failed = |error: io::Error| Error::io("listen to the sandbox", error);
        orders.set_read_timeout(Some(start_timeout)).map_err(failed)?;
        let events = OwnedFd::from(events);
        let readable = register(events.try_clone().map_err(failed)?).map_err(failed)?;
        let state = Arc::new(Mutex::new(State::default()));
        let (gone_sender, gone) = watch::channel(false);
        tokio::spawn(listen(readable, Arc::clone(&state), gone_sender));
        let orders = Mutex::new(Connection::to_box(orders.into()));
        Ok(Self {
            orders,
            events: Mutex::new(Arc::new(events)),
            asking: Mutex::default(),
            dialing: Arc::new(Semaphore::new(MOST_UNANSWERED)),
            state,
            gone,
        })
    }

    fn events(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a command and waits until it runs. On a thread that may block. After `Timeout` the box is of no use any
    /// more: the answer would be taken for that to another order.
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
                Some(libc::EAGAIN) => {
                    self.give_up();
                    Err(no_answer())
                }
                _ => Err(Error::io("talk to the sandbox", error)),
            },
        }
    }

    /// Refuses every further order.
    fn give_up(&self) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::net::shutdown(&*orders, rustix::net::Shutdown::Both);
        self.hang_up();
    }

    /// Why there is no answer: the listener hears it at the same moment as we do.
    fn wait_for_reason(&self) -> Error {
        tokio::runtime::Handle::current().block_on(self.ended());
        lock(&self.state).reason()
    }

    /// Tells init about a command that will come, unless an order is under way. `make` does the host's part, and says
    /// nothing when there is nothing to do.
    pub(crate) fn prepare(&self, make: impl FnOnce() -> io::Result<Option<PrepareOrder>>) -> io::Result<()> {
        // Under the lock, so that the command itself cannot come first.
        let Ok(orders) = self.orders.try_lock() else { return Ok(()) };
        match make()? {
            Some(order) => orders.send(&order.encode(), &[]),
            None => Ok(()),
        }
    }

    /// Sends a request that has no answer.
    pub(crate) fn tell(&self, request: &Request) -> Result<()> {
        self.tell_with(request, &[])
    }

    /// Descriptors can only be sent to a box that never moves.
    fn tell_with(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let frame = request.encode();
        let mut state = lock(&self.state);
        if state.is_gone {
            return Err(state.reason());
        }
        if let Some(held_back) = &mut state.held_back {
            held_back.push(frame);
            return Ok(());
        }
        drop(state);
        self.send(&frame, descriptors)
    }

    fn send(&self, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        send_frame(self.events().as_fd(), frame, descriptors).map_err(|error| match error.raw_os_error() {
            Some(libc::EPIPE | libc::ECONNRESET) => gone(),
            _ => Error::io("talk to the sandbox", error),
        })
    }

    /// Waits until a connection may be asked for.
    pub(crate) fn turn_to_dial(&self, deadline: Instant) -> Result<OwnedSemaphorePermit> {
        let waiting = async { timeout_at(deadline, Arc::clone(&self.dialing).acquire_owned()).await };
        match tokio::runtime::Handle::current().block_on(waiting) {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(no_answer()),
        }
    }

    /// Asks init for a connection. What comes is 0 when it stands, or the kernel's reason. Who does not want to wait any
    /// longer drops the receiver: an answer that comes later is nobody's.
    pub(crate) fn dial(
        &self,
        turn: OwnedSemaphorePermit,
        number: u64,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<i32>> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.is_gone {
                return Err(state.reason());
            }
            state.dials.insert(number, Dial { answer, _turn: turn });
        }
        match self.tell_with(request, descriptors) {
            Ok(()) => Ok(answered),
            Err(error) => {
                lock(&self.state).dials.remove(&number);
                Err(error)
            }
        }
    }

    /// Waits for what init says to [`dial`](Self::dial).
    pub(crate) fn wait_for_dialed(&self, answered: oneshot::Receiver<i32>, deadline: Instant) -> Result<i32> {
        match tokio::runtime::Handle::current().block_on(async { timeout_at(deadline, answered).await }) {
            Ok(Ok(errno)) => Ok(errno),
            Ok(Err(_)) => Err(lock(&self.state).reason()),
            Err(_) => Err(no_answer()),
        }
    }

    /// How many processes there are beside init; answered when init has done everything it was asked for before.
    pub(crate) fn count_processes(&self) -> Result<u64> {
        let (sender, report) = oneshot::channel();
        self.ask_for_report(sender, Self::tell)?;
        wait_for_report(report)
    }

    /// Waits until init has done everything it was asked for, also while nobody else may ask it for anything.
    fn settle(&self) -> Result<()> {
        let (sender, report) = oneshot::channel();
        self.ask_for_report(sender, |link, request| link.send(&request.encode(), &[]))?;
        wait_for_report(report).map(drop)
    }

    /// Asks in the order in which the answers are waited for.
    fn ask_for_report(
        &self,
        sender: oneshot::Sender<u64>,
        ask: impl FnOnce(&Self, &Request) -> Result<()>,
    ) -> Result<()> {
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        lock(&self.state).reports.push_back(sender);
        ask(self, &Request::Report).inspect_err(|_| drop(lock(&self.state).reports.pop_back()))
    }

    /// Has the box move: `transfer` ends it where it is and returns the sockets it is reached through from then on. What
    /// runs in it goes on, and what was asked of it before has been done. On a thread that may block.
    pub(crate) fn relocate(&self, transfer: impl FnOnce() -> Result<[UnixStream; 2]>) -> Result<()> {
        // Who has it has no order under way.
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        lock(&self.state).held_back = Some(Vec::new());
        let outcome = self.settle().and_then(|()| self.hand_over(transfer));
        let outcome = outcome.and_then(|socket| {
            socket.set_read_timeout(Some(START_TIMEOUT)).map_err(|error| Error::io("listen to the sandbox", error))?;
            *orders = Connection::to_box(socket.into());
            self.settle()
        });
        let held_back = lock(&self.state).held_back.take().unwrap_or_default();
        for frame in held_back {
            // Who sent it was told that it was sent; when nobody is there any more, everything has ended.
            let _ = self.send(&frame, &[]);
        }
        outcome
    }

    /// Returns the new socket for orders.
    fn hand_over(&self, transfer: impl FnOnce() -> Result<[UnixStream; 2]>) -> Result<UnixStream> {
        let (sender, successor) = oneshot::channel();
        lock(&self.state).successor = Some(successor);
        let arrived = transfer().and_then(|[orders, events]| {
            let ours = events.try_clone().map_err(|error| Error::io("listen to the sandbox", error))?;
            Ok((orders, OwnedFd::from(events), OwnedFd::from(ours)))
        });
        match arrived {
            Ok((orders, events, ours)) => {
                *self.events.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(ours);
                let _ = sender.send(events);
                Ok(orders)
            }
            Err(error) => {
                // Either the box never left, or the listener finds the sender dropped.
                lock(&self.state).successor = None;
                Err(error)
            }
        }
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
        let _ = rustix::net::shutdown(self.events(), rustix::net::Shutdown::Write);
    }

    /// Waits until init has ended.
    pub(crate) async fn ended(&self) {
        let mut gone = self.gone.clone();
        let _ = gone.wait_for(|gone| *gone).await;
    }
}

fn wait_for_report(report: oneshot::Receiver<u64>) -> Result<u64> {
    let waiting = async { tokio::time::timeout(PATIENCE, report).await };
    match tokio::runtime::Handle::current().block_on(waiting) {
        Ok(Ok(processes)) => Ok(processes),
        Ok(Err(_)) => Err(gone()),
        Err(_) => Err(no_answer()),
    }
}

/// Waits until the box stands.
pub(crate) fn wait_until_ready([_, events]: &[UnixStream; 2]) -> Result<()> {
    let failed = |error: io::Error| Error::io("set up the sandbox", error);
    events.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut connection = Connection::to_box(events.try_clone().map_err(failed)?.into());
    let body = connection.wait().map_err(failed)?;
    let body = body.ok_or_else(|| Error::internal("the sandbox ended while it was set up"))?;
    match Event::decode(&body).map_err(failed)? {
        Event::Ready => Ok(()),
        Event::Broken { step, errno } => Err(broken(&step.to_string_lossy(), errno)),
        Event::Exited { .. } | Event::Report { .. } | Event::Dialed { .. } => {
            Err(Error::internal("the sandbox began with something else"))
        }
    }
}

impl Drop for InitLink {
    fn drop(&mut self) {
        // The listener holds the socket too.
        let _ = rustix::net::shutdown(self.events(), rustix::net::Shutdown::Both);
    }
}

/// Hands events to those who wait for them until init is gone.
async fn listen(mut socket: AsyncFd<OwnedFd>, state: Arc<Mutex<State>>, gone: watch::Sender<bool>) {
    // Kept when the box moves: a frame may begin before and end after.
    let mut incoming = Incoming::from_box();
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
    state.reports.clear();
    state.dials.clear();
    state.running.clear();
    let _ = gone.send(true);
}

/// Where events come through after the last socket has ended; `None` when the box has not moved but ended.
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
            None => gone(),
        }
    }
}

fn gone() -> Error {
    Error::new(ErrorCode::Unavailable, "the sandbox has ended unexpectedly")
        .with_hint("try again: a new one is started")
}

fn no_answer() -> Error {
    Error::new(ErrorCode::Timeout, "the sandbox does not answer").with_hint("try again: a new one is started")
}

fn broken(step: &str, errno: i32) -> Error {
    Error::io(format!("set up the sandbox: {step}"), io::Error::from_raw_os_error(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(number: u64) -> ExecOrder {
        ExecOrder {
            number,
            argv: vec![c"true".into()],
            envp: Vec::new(),
            candidates: vec![c"/bin/true".into()],
            cwd: c"/".into(),
            open_files: None,
            terminal: None,
            streams: crate::protocol::Streams::Passed,
            group: crate::protocol::GroupPlace::Nowhere,
            attach: 0,
            user: None,
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn start_that_init_never_answers_ends_in_time() {
        let sockets = LinkSockets::pair().unwrap();
        let link = Arc::new(InitLink::begin_within(Duration::from_millis(20), sockets.ours).unwrap());
        let asked = Arc::clone(&link);
        let outcome = tokio::task::spawn_blocking(move || asked.exec(&order(1), &[]).map(drop)).await.unwrap();
        assert_eq!(outcome.unwrap_err().code(), ErrorCode::Timeout);
        assert!(!link.is_running(1));
        // The next order is not sent into a conversation that is out of step; it ends with the box.
        drop(sockets.theirs);
        let asked = Arc::clone(&link);
        let outcome = tokio::task::spawn_blocking(move || asked.exec(&order(2), &[]).map(drop)).await.unwrap();
        assert_eq!(outcome.unwrap_err().code(), ErrorCode::Unavailable);
    }
}
