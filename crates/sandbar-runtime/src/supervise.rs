//! The task beside every command: moves its streams, keeps its time, sees it end.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::AsyncWriteExt,
    net::unix::pipe::Sender as StdinPipe,
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    CommandEnd, ExecEvent, ExitStatus,
    boxed::NamedPipes,
    cgroup::{CommandGroup, SessionLease},
    command::Control,
    output::OutputStream,
    protocol::Ended,
};

/// What was killed is dead after so long, and has let go of its output, unless it got away.
const DYING: Duration = Duration::from_secs(1);

/// What a supervisor looks after.
pub(crate) struct Supervisor {
    /// An error when the whole box is gone.
    pub(crate) ended: oneshot::Receiver<Ended>,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) group: Option<Arc<CommandGroup>>,
    /// The groups of the whole box, where a command has none of its own.
    pub(crate) whole_box: Option<Arc<SessionLease>>,
    pub(crate) stdout: OutputStream,
    pub(crate) stderr: OutputStream,
    pub(crate) stdin: Option<(StdinPipe, mpsc::Receiver<Bytes>)>,
    pub(crate) events: mpsc::Sender<ExecEvent>,
    pub(crate) exit: oneshot::Sender<ExitStatus>,
    /// Their names are needed as long as the command has the pipes: a box that moves opens them again.
    pub(crate) named_pipes: Option<NamedPipes>,
    pub(crate) wall_time: Option<Duration>,
    pub(crate) end: CommandEnd,
    /// The command was killed.
    pub(crate) killed: CancellationToken,
    /// The sandbox is being stopped.
    pub(crate) stop: CancellationToken,
}

/// Ends the command when the supervisor is dropped before its command has exited, as when the tokio runtime goes away.
struct KillOnDrop {
    control: Arc<dyn Control>,
    armed: bool,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.control.kill();
        }
    }
}

impl Supervisor {
    /// Runs until the command has exited and the last writer of its streams is gone, or the sandbox is stopped.
    pub(crate) async fn run(self) {
        let Self {
            mut ended,
            control,
            group,
            whole_box,
            mut stdout,
            mut stderr,
            stdin,
            events,
            exit,
            named_pipes,
            wall_time,
            end,
            killed,
            stop,
        } = self;
        let _named_pipes = named_pipes;
        let mut guard = KillOnDrop { control: Arc::clone(&control), armed: true };
        let started = Instant::now();
        let deadline = wall_time.and_then(|limit| started.checked_add(limit));
        let mut status = ExitStatus::default();
        let mut feeding = stdin.is_some();
        let mut ending = false;
        let mut feeder = std::pin::pin!(feed(stdin));
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut ended => break outcome,
                () = stop.cancelled(), if !ending => {
                    ending = true;
                    control.kill();
                }
                () = wait_until(deadline), if !ending => {
                    ending = true;
                    status.timed_out = true;
                    control.kill();
                }
                () = events.closed(), if !ending => {
                    ending = true;
                    control.kill();
                }
                () = stdout.step(&events), if stdout.open => {}
                () = stderr.step(&events), if stderr.open => {}
                () = &mut feeder, if feeding => feeding = false,
            }
        };
        // What it left running may still have its output. It is over when the box is gone.
        let mut dead = None;
        while end == CommandEnd::Output && outcome.is_ok() && (stdout.open || stderr.open) {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = killed.cancelled(), if dead.is_none() => dead = Some(Instant::now() + DYING),
                () = wait_until(dead) => break,
                () = wait_until(deadline), if dead.is_none() => {
                    status.timed_out = true;
                    control.kill();
                }
                () = events.closed(), if dead.is_none() => control.kill(),
                () = stdout.step(&events), if stdout.open => {}
                () = stderr.step(&events), if stderr.open => {}
                () = &mut feeder, if feeding => feeding = false,
            }
        }
        guard.armed = false;
        tokio::select! {
            () = async { tokio::join!(stdout.flush(&events), stderr.flush(&events)); } => {}
            () = stop.cancelled() => status.truncated = true,
        }
        drop(events);
        match outcome {
            Ok(Ended::Code(code)) => status.code = Some(code),
            Ok(Ended::Signal(signal)) => status.signal = Some(signal),
            // The whole box is gone, and the kernel ends boxes that way.
            Err(_) => {
                status.signal = Some(libc::SIGKILL);
                status.oom_killed = whole_box.is_some_and(|groups| groups.stats().oom_kills > Some(0));
            }
        }
        status.oom_killed |= group.is_some_and(|group| group.oom_kills() > 0);
        status.truncated |= stdout.truncated || stderr.truncated;
        status.duration = started.elapsed();
        // The reader may be gone; the command has ended all the same.
        let _ = exit.send(status);
        tokio::select! {
            () = async { tokio::join!(stdout.discard(), stderr.discard()); } => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Writes what arrives until the input ends or the command reads no more.
async fn feed(stdin: Option<(StdinPipe, mpsc::Receiver<Bytes>)>) {
    let Some((mut pipe, mut chunks)) = stdin else { return };
    while let Some(chunk) = chunks.recv().await {
        if pipe.write_all(&chunk).await.is_err() {
            return;
        }
    }
}
