//! Task that supervises one command: moves its streams, enforces its deadline, reports its exit.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::AsyncWriteExt,
    net::unix::pipe::Sender as StdinPipe,
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::named_pipes::NamedPipes;
use crate::{
    CommandEnd, ExecEvent, ExitStatus,
    cgroup::{CommandGroup, SessionLease},
    command::Control,
    output::OutputStream,
    protocol::Ended,
};

/// Limits how long output of a killed command is read. A process that escaped the kill could keep
/// the pipe open.
const KILLED_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Supervisor of one command.
pub(crate) struct CommandSupervisor {
    /// Resolves to an error if the box is gone.
    pub(crate) ended: oneshot::Receiver<Ended>,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) group: Option<Arc<CommandGroup>>,
    /// Groups of the session, if the command has no group of its own.
    pub(crate) session_groups: Option<Arc<SessionLease>>,
    pub(crate) stdout: OutputStream,
    pub(crate) stderr: OutputStream,
    pub(crate) stdin: Option<(StdinPipe, mpsc::Receiver<Bytes>)>,
    pub(crate) events: mpsc::Sender<ExecEvent>,
    pub(crate) exit: oneshot::Sender<ExitStatus>,
    /// Kept as long as the command may use the pipes: a relocated box opens them again by name.
    pub(crate) named_pipes: Option<NamedPipes>,
    pub(crate) wall_time: Option<Duration>,
    pub(crate) end: CommandEnd,
    /// The command was killed.
    pub(crate) killed: CancellationToken,
    /// The sandbox is being stopped.
    pub(crate) stop: CancellationToken,
}

/// Kills the command if the supervisor is dropped before the command has exited, as when the tokio
/// runtime shuts down.
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

impl CommandSupervisor {
    /// Runs until the command has exited and the last writer of its streams is gone, or the sandbox
    /// is stopped.
    pub(crate) async fn run(self) {
        let Self {
            mut ended,
            control,
            group,
            session_groups,
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
        let mut guard = KillOnDrop {
            control: Arc::clone(&control),
            armed: true,
        };
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
        // Background jobs of the command may still write output, unless the box is gone.
        let mut give_up_at = None;
        while end == CommandEnd::Output && outcome.is_ok() && (stdout.open || stderr.open) {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = killed.cancelled(), if give_up_at.is_none() => give_up_at = Some(Instant::now() + KILLED_OUTPUT_TIMEOUT),
                () = wait_until(give_up_at) => break,
                () = wait_until(deadline), if give_up_at.is_none() => {
                    status.timed_out = true;
                    control.kill();
                }
                () = events.closed(), if give_up_at.is_none() => control.kill(),
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
            // The box is gone, so the kernel has killed the command with SIGKILL.
            Err(_) => {
                status.signal = Some(libc::SIGKILL);
                status.oom_killed =
                    session_groups.is_some_and(|groups| groups.stats().oom_kills > Some(0));
            }
        }
        if let Some(group) = group {
            // A kill that is only counted for the whole sandbox is this command's if it, or what
            // its shell ran last, died of it.
            let was_killed = !ending
                && !killed.is_cancelled()
                && (status.signal == Some(libc::SIGKILL)
                    || status.code == Some(128 + libc::SIGKILL));
            status.oom_killed |=
                group.oom_kills() > 0 || (was_killed && group.shared_oom_kills() > 0);
        }
        status.truncated |= stdout.truncated || stderr.truncated;
        status.duration = started.elapsed();
        // Fails only if the caller has dropped the command.
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

/// Writes chunks to stdin until the input ends or the command has closed its end.
async fn feed(stdin: Option<(StdinPipe, mpsc::Receiver<Bytes>)>) {
    let Some((mut pipe, mut chunks)) = stdin else {
        return;
    };
    while let Some(chunk) = chunks.recv().await {
        if pipe.write_all(&chunk).await.is_err() {
            return;
        }
    }
}
