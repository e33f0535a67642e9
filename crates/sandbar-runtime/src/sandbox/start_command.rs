//! Starting a command in a box.

use std::{io, os::fd::BorrowedFd, sync::Arc};

use sandbar_core::{ByteCount, Error, ErrorCode, Result, UserAccount};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use super::{
    box_sandbox::{Boundary, BoxSandbox},
    command_control::CommandControl,
    command_supervisor::CommandSupervisor,
    init_link::StartedCommand,
    pipes::OurEnds,
    start_error::start_error,
};
use crate::{
    ExecEvent, ExecSpec, RunningCommand, StdinHandle,
    admission::ONLY_ROOT,
    cgroup::CommandGroup,
    command::Control,
    environment::{Invocation, c_string},
    output::OutputStream,
    protocol::{CommandCgroup, ExecOrder, UserOrder},
};

const DEFAULT_DIRECTORY: &str = "/workspace";
const DEFAULT_OUTPUT_LIMIT: ByteCount = ByteCount::mib(10);

impl BoxSandbox {
    /// Starts a command as `user`, or as root of the box.
    pub(super) fn start(
        &self,
        spec: &ExecSpec,
        user: Option<&UserAccount>,
    ) -> Result<RunningCommand> {
        if spec.user.is_some() && user.is_none() {
            // Running the command as root instead would give it more rights than requested.
            return Err(Error::internal("user of the command was not looked up"));
        }
        let invocation = Invocation::prepare(&spec.argv, &spec.env, user)?;
        let cwd = absolute(spec.cwd.as_deref().unwrap_or(DEFAULT_DIRECTORY));
        let user = user
            .map(|user| self.user_order(user))
            .transpose()?
            .flatten();
        self.order_start(spec, user, invocation, &cwd)
    }

    fn order_start(
        &self,
        spec: &ExecSpec,
        user: Option<UserOrder>,
        invocation: Invocation,
        cwd: &str,
    ) -> Result<RunningCommand> {
        let io_failed =
            |error: io::Error| Error::io(format!("start `{}`", spec.argv[0].escape_debug()), error);
        let group = self.command_group(spec).map_err(io_failed)?;
        let directory = c_string("cwd", cwd)?;
        let owner = self.stream_owner(user.as_ref());
        let (number, pipes) = self
            .streams
            .make(spec.stdin, owner, || self.next_number())
            .map_err(io_failed)?;
        let v1_procs: Vec<BorrowedFd<'_>> =
            group.iter().flat_map(|group| group.v1_procs()).collect();
        let order = ExecOrder {
            number,
            argv: invocation.argv,
            envp: invocation.envp,
            candidates: invocation.candidates,
            cwd: directory,
            open_files: spec.resources.open_files,
            terminal: spec.terminal,
            streams: pipes.source(),
            group: match &group {
                Some(_) => CommandCgroup::Passed,
                None if self.boundary.is_guest() => CommandCgroup::Own,
                None => CommandCgroup::None,
            },
            procs_count: u8::try_from(v1_procs.len()).unwrap_or_default(),
            user,
        };
        let descriptors: Vec<BorrowedFd<'_>> = pipes
            .theirs()
            .chain(group.as_ref().map(std::os::fd::AsFd::as_fd))
            .chain(v1_procs)
            .collect();
        let outcome = self.link.exec(&order, &descriptors);
        drop(descriptors);
        let ours = pipes.into_ours();
        let started = match outcome {
            Ok(Ok(started)) => started,
            Ok(Err(failure)) => return Err(start_error(failure, &spec.argv[0], cwd)),
            Err(error) => {
                if error.code() == ErrorCode::Timeout
                    && let Some(groups) = &self.groups
                {
                    // Init blocks in the start of this command. The next command gets a new box.
                    let _ = groups.kill();
                }
                return Err(error);
            }
        };
        let control = Arc::new(CommandControl {
            link: Arc::clone(&self.link),
            number,
            pid: started.pid,
            has_terminal: spec.terminal.is_some(),
            group: group.clone(),
            killed: CancellationToken::new(),
        });
        let supervised = self.supervise(spec, started, Arc::clone(&control), group, ours);
        supervised
            .inspect_err(|_| control.kill())
            .map_err(io_failed)
    }

    /// Spawns the supervisor of a command.
    fn supervise(
        &self,
        spec: &ExecSpec,
        started: StartedCommand,
        control: Arc<CommandControl>,
        group: Option<Arc<CommandGroup>>,
        ours: OurEnds,
    ) -> io::Result<RunningCommand> {
        let limit = spec.resources.output.unwrap_or(DEFAULT_OUTPUT_LIMIT).get();
        let (event_sender, events) = mpsc::channel(16);
        let (exit_sender, exit) = oneshot::channel();
        let (stdin_handle, stdin) = match ours.stdin {
            Some(pipe) => {
                let (handle, chunks) = StdinHandle::channel();
                (Some(handle), Some((Sender::from_owned_fd(pipe)?, chunks)))
            }
            None => (None, None),
        };
        let supervisor = CommandSupervisor {
            ended: started.ended,
            control: Arc::clone(&control) as Arc<dyn Control>,
            group,
            session_groups: self.groups.clone().filter(|_| self.boundary.is_guest()),
            stdout: OutputStream::new(
                Receiver::from_owned_fd(ours.stdout)?,
                ExecEvent::Stdout,
                limit,
            ),
            stderr: OutputStream::new(
                Receiver::from_owned_fd(ours.stderr)?,
                ExecEvent::Stderr,
                limit,
            ),
            stdin,
            events: event_sender,
            exit: exit_sender,
            named_pipes: ours.named,
            wall_time: spec.resources.wall_time,
            end: spec.end,
            killed: control.killed.clone(),
            stop: self.stop.clone(),
        };
        self.supervisors.spawn(supervisor.run());
        Ok(RunningCommand {
            pid: started.pid,
            events,
            exit: Some(exit),
            stdin: stdin_handle,
            process: control,
            held: None,
        })
    }

    fn command_group(&self, spec: &ExecSpec) -> io::Result<Option<Arc<CommandGroup>>> {
        match &self.groups {
            Some(groups) if !self.boundary.is_guest() => groups.command(&spec.resources).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the uid, gid and groups init should switch to. `None` means: stay root, because this
    /// box has no other users.
    fn user_order(&self, user: &UserAccount) -> Result<Option<UserOrder>> {
        let has_users = match self.boundary {
            Boundary::Namespaces => self.owners.is_some(),
            Boundary::GuestKernel { init_uid } if user.uid == init_uid => {
                let what = format!("user `{}` is reserved for the sandbox's init", user.name);
                return Err(Error::invalid("user", what).with_hint("choose another user"));
            }
            Boundary::GuestKernel { .. } | Boundary::None => rustix::process::geteuid().is_root(),
        };
        match (has_users, user.uid, user.gid) {
            (true, uid, gid) => Ok(Some(UserOrder {
                uid,
                gid,
                groups: user.groups.clone(),
            })),
            (false, 0, 0) => Ok(None),
            (false, ..) => {
                let what = format!("commands cannot run as `{}` here: {ONLY_ROOT}", user.name);
                Err(Error::invalid("user", what)
                    .with_hint("leave out `user`, or run the host as root"))
            }
        }
    }

    /// Returns the host uid and gid of the command's user, which own its streams. The command may
    /// then reopen them by name, as in `> /dev/stderr`.
    fn stream_owner(&self, user: Option<&UserOrder>) -> Option<(u32, u32)> {
        match (&self.owners, user) {
            (None, user) => user.map(|user| (user.uid, user.gid)),
            (Some(owners), None) => Some((owners.first(), owners.first())),
            (Some(owners), Some(user)) => {
                Some((owners.on_host(user.uid), owners.on_host(user.gid)))
            }
        }
    }
}

/// Resolves a path against the default working directory.
fn absolute(cwd: &str) -> String {
    if cwd.starts_with('/') {
        cwd.to_owned()
    } else {
        format!("{DEFAULT_DIRECTORY}/{cwd}")
    }
}
