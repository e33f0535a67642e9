//! Host side of the connection to an init.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{Arc, Mutex},
    time::Duration,
};

use sandbar_core::{Error, ErrorCode, MutexExt as _, Result};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot, watch},
    time::{Instant, timeout_at},
};

use super::{
    init_events::{LinkState, PendingDial, lock, read_events, register},
    start_error::StartFailure,
};
use crate::protocol::{
    Connection, Ended, Event, ExecAnswer, ExecOrder, PrepareOrder, Request, Stage,
    send_frame_within,
};

/// Limits how long a box may take to set itself up, or to do all earlier requests.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// Limits how long init may take to count processes.
const COUNT_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits how long a request with descriptors may take to be sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits how long init may take to exit after it has closed a socket.
const GONE_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits how long init may take to start a command. Init waits until the program is loaded, which
/// the sandbox can delay.
pub(super) const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Interval at which a relocation checks whether init has read all requests.
const HOLD_BACK_INTERVAL: Duration = Duration::from_millis(10);

/// Limits the dial requests without an answer. They fit into the socket buffer even if init does
/// not read, as in a frozen box.
const MAX_PENDING_DIALS: usize = 64;

/// A command that was started.
#[derive(Debug)]
pub(crate) struct StartedCommand {
    pub(crate) pid: u32,
    /// Resolves when the command has ended, with an error if its box is gone.
    pub(crate) ended: oneshot::Receiver<Ended>,
}

/// Connection to the init of a box.
#[derive(Debug)]
pub(crate) struct InitLink {
    /// Held by the start in progress. Others wait for it with a deadline, before they lock
    /// `orders`.
    start_permit: Semaphore,
    start_timeout: Duration,
    /// Carries one order at a time: init starts commands one after the other.
    pub(super) orders: Mutex<Connection>,
    /// Replaced when the box is relocated.
    pub(super) events: Mutex<Arc<OwnedFd>>,
    /// Held while a report is requested, so that senders are queued in the order of requests.
    report_order: Mutex<()>,
    /// A dial request takes a permit, which the answer of init returns.
    dial_permits: Arc<Semaphore>,
    pub(super) state: Arc<Mutex<LinkState>>,
    /// Tells the event reader that requests are left to send.
    queued: Arc<Notify>,
    gone: watch::Receiver<bool>,
}

/// Both ends of the two sockets between host and init, for orders and for events.
pub(crate) struct LinkSockets {
    pub(crate) ours: [UnixStream; 2],
    pub(crate) theirs: [UnixStream; 2],
}

impl LinkSockets {
    pub(crate) fn pair() -> io::Result<Self> {
        let (our_orders, their_orders) = UnixStream::pair()?;
        let (our_events, their_events) = UnixStream::pair()?;
        Ok(Self {
            ours: [our_orders, our_events],
            theirs: [their_orders, their_events],
        })
    }
}

impl InitLink {
    /// Waits until the box is set up, then connects. Blocks; must be called inside a tokio runtime.
    pub(crate) fn open(sockets: [UnixStream; 2]) -> Result<Self> {
        wait_until_ready(&sockets)?;
        Self::connect(sockets)
    }

    /// Connects to an init that has been restored from a checkpoint.
    pub(crate) fn resume(sockets: [UnixStream; 2]) -> Result<Self> {
        let link = Self::connect(sockets)?;
        link.sync()?;
        Ok(link)
    }

    /// Connects without waiting for the setup. Commands may be started at once and fail if the
    /// setup fails. Must be called inside a tokio runtime.
    pub(crate) fn connect(sockets: [UnixStream; 2]) -> Result<Self> {
        Self::connect_with(START_TIMEOUT, sockets)
    }

    fn connect_with(start_timeout: Duration, [orders, events]: [UnixStream; 2]) -> Result<Self> {
        let failed = |error: io::Error| Error::io("connect to the sandbox", error);
        orders
            .set_read_timeout(Some(start_timeout))
            .map_err(failed)?;
        let events = OwnedFd::from(events);
        let readable = register(events.try_clone().map_err(failed)?).map_err(failed)?;
        let state = Arc::new(Mutex::new(LinkState::default()));
        let (gone_sender, gone) = watch::channel(false);
        let queued = Arc::new(Notify::new());
        #[expect(
            clippy::disallowed_methods,
            reason = "ends when init closes its socket, which the box cannot outlive"
        )]
        tokio::spawn(read_events(
            readable,
            Arc::clone(&state),
            Arc::clone(&queued),
            gone_sender,
        ));
        let orders = Mutex::new(Connection::to_box(orders.into()));
        Ok(Self {
            start_permit: Semaphore::new(1),
            start_timeout,
            orders,
            events: Mutex::new(Arc::new(events)),
            report_order: Mutex::default(),
            dial_permits: Arc::new(Semaphore::new(MAX_PENDING_DIALS)),
            state,
            queued,
            gone,
        })
    }

    fn events(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.events.lock_unpoisoned())
    }

    /// Starts a command and waits until it runs. Blocks.
    ///
    /// The outer error means that the box does not work, the inner one that this command could not
    /// start. After `Timeout` the box is unusable: a late answer would be taken for the answer to
    /// the next order.
    pub(crate) fn exec(
        &self,
        order: &ExecOrder,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<std::result::Result<StartedCommand, StartFailure>> {
        let number = order.number;
        let body = order.encode();
        let _permit = self.acquire_start_permit()?;
        let (end_sender, ended) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.is_gone {
                return Err(state.gone_error());
            }
            state.running.insert(number, end_sender);
        }
        let answer = {
            let mut orders = self.orders.lock_unpoisoned();
            orders
                .send_within(self.start_timeout, &body, descriptors)
                .and_then(|()| orders.wait())
        };
        let answer = answer.and_then(|body| body.map(|body| ExecAnswer::decode(&body)).transpose());
        if let Ok(Some(ExecAnswer::Started { pid })) = answer {
            return Ok(Ok(StartedCommand { pid, ended }));
        }
        lock(&self.state).running.remove(&number);
        match answer {
            Ok(Some(ExecAnswer::NotStarted { stage, errno })) => {
                Ok(Err((stage, io::Error::from_raw_os_error(errno))))
            }
            Ok(_) => Err(self.wait_for_gone_error()),
            Err(error) => match error.raw_os_error() {
                Some(libc::EPIPE | libc::ECONNRESET) => Err(self.wait_for_gone_error()),
                Some(libc::E2BIG) => Ok(Err((Stage::Exec, error))),
                Some(libc::EAGAIN | libc::ETIMEDOUT) => {
                    self.abandon();
                    Err(timed_out("start the command"))
                }
                _ => Err(Error::io("talk to the sandbox", error)),
            },
        }
    }

    /// Makes every further order fail, and ends the box.
    fn abandon(&self) {
        let orders = self.orders.lock_unpoisoned();
        let _ = rustix::net::shutdown(&*orders, rustix::net::Shutdown::Both);
        self.close();
    }

    /// Waits for the start in progress. Blocks.
    fn acquire_start_permit(&self) -> Result<SemaphorePermit<'_>> {
        if let Ok(permit) = self.start_permit.try_acquire() {
            return Ok(permit);
        }
        let waiting =
            async { tokio::time::timeout(self.start_timeout, self.start_permit.acquire()).await };
        match tokio::runtime::Handle::current().block_on(waiting) {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(timed_out("start earlier commands")),
        }
    }

    /// Waits until the event reader has seen the end of the box, and returns the cause.
    fn wait_for_gone_error(&self) -> Error {
        let waiting = async { tokio::time::timeout(GONE_TIMEOUT, self.wait_gone()).await };
        if tokio::runtime::Handle::current().block_on(waiting).is_err() {
            return timed_out("exit");
        }
        lock(&self.state).gone_error()
    }

    /// Announces the next command to init, unless an order is in progress. `make` does the host's
    /// part and returns `None` if there is nothing to announce.
    pub(crate) fn prepare(
        &self,
        make: impl FnOnce() -> io::Result<Option<PrepareOrder>>,
    ) -> io::Result<()> {
        // Holds the lock, so that the command itself cannot overtake the announcement.
        let Ok(orders) = self.orders.try_lock() else {
            return Ok(());
        };
        match make()? {
            Some(order) => orders.send_within(SEND_TIMEOUT, &order.encode(), &[]),
            None => Ok(()),
        }
    }

    /// Sends a request. Never blocks: what init does not read yet is queued, up to a limit.
    pub(crate) fn request(&self, request: &Request) -> Result<()> {
        let mut state = lock(&self.state);
        if state.is_gone {
            return Err(state.gone_error());
        }
        state.queue(request)?;
        if state.flush(self.events().as_fd()) {
            self.queued.notify_one();
        }
        Ok(())
    }

    /// Sends a request with descriptors, which is possible only if the box is never relocated.
    /// Blocks while init does not read.
    fn request_with(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        if descriptors.is_empty() {
            return self.request(request);
        }
        let state = lock(&self.state);
        if state.is_gone {
            return Err(state.gone_error());
        }
        drop(state);
        self.send(&request.encode(), descriptors)
    }

    fn send(&self, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let events = self.events();
        send_frame_within(Some(SEND_TIMEOUT), events.as_fd(), frame, descriptors).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EPIPE | libc::ECONNRESET) => gone(),
                Some(libc::EAGAIN | libc::ETIMEDOUT) => timed_out("read a request"),
                _ => Error::io("talk to the sandbox", error),
            }
        })
    }

    /// Holds requests back, once all earlier ones are sent.
    pub(super) fn hold_back(&self) -> Result<()> {
        let deadline = std::time::Instant::now() + READY_TIMEOUT;
        loop {
            let mut state = lock(&self.state);
            let is_left = state.flush(self.events().as_fd());
            if !is_left {
                state.is_relocating = true;
                return Ok(());
            }
            drop(state);
            if std::time::Instant::now() >= deadline {
                return Err(does_not_read());
            }
            std::thread::sleep(HOLD_BACK_INTERVAL);
        }
    }

    /// Sends the requests that were held back.
    pub(super) fn release_requests(&self) {
        let mut state = lock(&self.state);
        state.is_relocating = false;
        if state.flush(self.events().as_fd()) {
            self.queued.notify_one();
        }
    }

    /// Waits for a permit to send a dial request.
    pub(crate) fn acquire_dial_permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit> {
        let waiting =
            async { timeout_at(deadline, Arc::clone(&self.dial_permits).acquire_owned()).await };
        match tokio::runtime::Handle::current().block_on(waiting) {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(timed_out("answer earlier connections")),
        }
    }

    /// Requests a connection. The receiver resolves to 0 on success, or to an errno. Dropping it
    /// ignores the answer.
    pub(crate) fn dial(
        &self,
        permit: OwnedSemaphorePermit,
        number: u64,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<i32>> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.is_gone {
                return Err(state.gone_error());
            }
            state.dials.insert(
                number,
                PendingDial {
                    answer,
                    _permit: permit,
                },
            );
        }
        match self.request_with(request, descriptors) {
            Ok(()) => Ok(answered),
            Err(error) => {
                lock(&self.state).dials.remove(&number);
                Err(error)
            }
        }
    }

    /// Waits for the answer to [`dial`](Self::dial).
    pub(crate) fn wait_for_dialed(
        &self,
        answered: oneshot::Receiver<i32>,
        deadline: Instant,
    ) -> Result<i32> {
        match tokio::runtime::Handle::current()
            .block_on(async { timeout_at(deadline, answered).await })
        {
            Ok(Ok(errno)) => Ok(errno),
            Ok(Err(_)) => Err(lock(&self.state).gone_error()),
            Err(_) => Err(timed_out("answer a connection")),
        }
    }

    /// Returns the number of processes in the box without init, after init has done all earlier
    /// requests.
    pub(crate) fn count_processes(&self) -> Result<u64> {
        let (sender, report) = oneshot::channel();
        self.request_report(sender, Self::request)?;
        wait_for_report(report, COUNT_TIMEOUT)
    }

    /// Waits until init has done all earlier requests. Works also while other requests are held
    /// back.
    pub(super) fn sync(&self) -> Result<()> {
        let (sender, report) = oneshot::channel();
        self.request_report(sender, |link, request| link.send(&request.encode(), &[]))?;
        wait_for_report(report, READY_TIMEOUT).map(drop)
    }

    /// Queues the sender and sends the request in one step, since reports are matched by order.
    fn request_report(
        &self,
        sender: oneshot::Sender<u64>,
        send: impl FnOnce(&Self, &Request) -> Result<()>,
    ) -> Result<()> {
        let _order = self.report_order.lock_unpoisoned();
        lock(&self.state).reports.push_back(sender);
        send(self, &Request::Report).inspect_err(|_| drop(lock(&self.state).reports.pop_back()))
    }

    /// Returns whether the command was started and has not ended.
    pub(crate) fn is_running(&self, number: u64) -> bool {
        lock(&self.state).running.contains_key(&number)
    }

    pub(crate) fn is_gone(&self) -> bool {
        lock(&self.state).is_gone
    }

    /// Closes the event socket for writing. Init then kills everything in the box and exits.
    pub(crate) fn close(&self) {
        let _ = rustix::net::shutdown(self.events(), rustix::net::Shutdown::Write);
    }

    /// Waits until init has exited.
    pub(crate) async fn wait_gone(&self) {
        let mut gone = self.gone.clone();
        let _ = gone.wait_for(|gone| *gone).await;
    }
}

impl Drop for InitLink {
    fn drop(&mut self) {
        // A shutdown, because the event reader holds the socket too.
        let _ = rustix::net::shutdown(self.events(), rustix::net::Shutdown::Both);
    }
}

fn wait_for_report(report: oneshot::Receiver<u64>, timeout: Duration) -> Result<u64> {
    let waiting = async { tokio::time::timeout(timeout, report).await };
    match tokio::runtime::Handle::current().block_on(waiting) {
        Ok(Ok(processes)) => Ok(processes),
        Ok(Err(_)) => Err(gone()),
        Err(_) => Err(timed_out("report its processes")),
    }
}

/// Waits until the box is set up.
pub(crate) fn wait_until_ready([_, events]: &[UnixStream; 2]) -> Result<()> {
    let failed = |error: io::Error| Error::io("set up the sandbox", error);
    events
        .set_read_timeout(Some(READY_TIMEOUT))
        .map_err(failed)?;
    let mut connection = Connection::to_box(events.try_clone().map_err(failed)?.into());
    let body = connection.wait().map_err(failed)?;
    let body = body.ok_or_else(|| Error::internal("sandbox has exited during its setup"))?;
    match Event::decode(&body).map_err(failed)? {
        Event::Ready => Ok(()),
        Event::SetupFailed { step, errno } => Err(setup_failed(&step.to_string_lossy(), errno)),
        Event::Exited { .. } | Event::Report { .. } | Event::Dialed { .. } => Err(Error::internal(
            "sandbox sent an unexpected event during its setup",
        )),
    }
}

pub(super) fn gone() -> Error {
    Error::new(ErrorCode::Unavailable, "sandbox has ended unexpectedly")
        .with_hint("try again: a new one is started")
}

/// Returns the error for a box whose init did not do `what`.
fn timed_out(what: &str) -> Error {
    Error::new(
        ErrorCode::Timeout,
        format!("sandbox did not {what} in time"),
    )
    .with_hint("try again; if that fails, destroy it or roll it back")
}

/// Returns the error for a box whose init reads no requests.
pub(super) fn does_not_read() -> Error {
    timed_out("read earlier requests")
}

pub(super) fn setup_failed(step: &str, errno: i32) -> Error {
    Error::io(
        format!("set up the sandbox: {step}"),
        io::Error::from_raw_os_error(errno),
    )
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
            group: crate::protocol::CommandCgroup::None,
            procs_count: 0,
            user: None,
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn start_without_answer_of_init_times_out() {
        let sockets = LinkSockets::pair().unwrap();
        let link =
            Arc::new(InitLink::connect_with(Duration::from_millis(20), sockets.ours).unwrap());
        let asked = Arc::clone(&link);
        let outcome = tokio::task::spawn_blocking(move || asked.exec(&order(1), &[]).map(drop))
            .await
            .unwrap();
        assert_eq!(outcome.unwrap_err().code(), ErrorCode::Timeout);
        assert!(!link.is_running(1));
        // The next order fails instead of being sent on a connection that is out of step.
        drop(sockets.theirs);
        let asked = Arc::clone(&link);
        let outcome = tokio::task::spawn_blocking(move || asked.exec(&order(2), &[]).map(drop))
            .await
            .unwrap();
        assert_eq!(outcome.unwrap_err().code(), ErrorCode::Unavailable);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_order_that_init_does_not_read_times_out() {
        let sockets = LinkSockets::pair().unwrap();
        let link = InitLink::connect_with(Duration::from_millis(20), sockets.ours).unwrap();
        let mut large = order(1);
        large.envp = vec![std::ffi::CString::new(vec![b'x'; 4 << 20]).unwrap()];
        let outcome = tokio::task::spawn_blocking(move || link.exec(&large, &[]).map(drop))
            .await
            .unwrap();
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Timeout);
        assert!(error.message().contains("start the command"), "{error}");
    }

    /// Reads `count` frames that the link has sent.
    async fn received(socket: UnixStream, count: usize) -> Vec<Request> {
        tokio::task::spawn_blocking(move || {
            let mut connection = Connection::new(socket.into());
            (0..count)
                .map(|_| Request::decode(&connection.wait().unwrap().unwrap()).unwrap())
                .collect()
        })
        .await
        .unwrap()
    }

    // One worker: a request that blocked its thread would stop the test.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn requests_that_init_does_not_read_never_block() {
        let sockets = LinkSockets::pair().unwrap();
        let link = InitLink::connect_with(START_TIMEOUT, sockets.ours).unwrap();
        let signal = |number| Request::Signal { number, signal: 15 };
        let mut sent = 0;
        let refused = loop {
            match link.request(&signal(sent)) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code(), ErrorCode::Timeout);
        assert!(sent >= 1024, "{sent}");
        // A command can be killed nevertheless, and once is enough.
        for _ in 0..2 {
            link.request(&Request::Kill { number: 7 }).unwrap();
        }
        let [_orders, events] = sockets.theirs;
        let total = usize::try_from(sent).unwrap() + 1;
        let read = received(events.try_clone().unwrap(), total).await;
        let numbers: Vec<u64> = read
            .iter()
            .map_while(|request| match request {
                Request::Signal { number, .. } => Some(*number),
                _ => None,
            })
            .collect();
        assert!(numbers.into_iter().eq(0..sent));
        assert!(matches!(read.last(), Some(Request::Kill { number: 7 })));
        link.request(&signal(0)).unwrap();
        assert_eq!(received(events, 1).await.len(), 1);
    }
}
