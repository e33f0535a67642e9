//! Executing an order to start a command.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::io::Errno;

use super::{
    guest_groups::GuestGroups,
    pipes::{open_dev_null, open_in_root, open_streams},
    serve::{Command, Init},
    start::{Launch, NotStarted, start},
    terminal::{SignalSource, Terminal},
    terminal_signals::kernel_sends_signals,
};
use crate::protocol::{
    CommandCgroup, ExecAnswer, ExecOrder, Incoming, InitMode, PrepareOrder, Stage, Streams,
    send_frame,
};

/// Descriptors passed with an [`ExecOrder`].
struct Passed {
    streams: Option<[OwnedFd; 3]>,
    /// Directory of the command's v2 group.
    group: Option<OwnedFd>,
    /// `cgroup.procs` of groups to enter.
    procs: Vec<OwnedFd>,
}

impl Passed {
    fn take(order: &ExecOrder, incoming: &mut Incoming) -> io::Result<Self> {
        let streams = match order.streams {
            Streams::Passed => Some([
                incoming.descriptor()?,
                incoming.descriptor()?,
                incoming.descriptor()?,
            ]),
            Streams::Named { .. } => None,
        };
        let group = if order.group == CommandCgroup::Passed {
            Some(incoming.descriptor()?)
        } else {
            None
        };
        let procs = (0..order.procs_count)
            .map(|_| incoming.descriptor())
            .collect::<io::Result<_>>()?;
        Ok(Self {
            streams,
            group,
            procs,
        })
    }
}

/// Descriptors of a command that can be opened before its order arrives.
pub(super) struct Prepared {
    streams: [OwnedFd; 3],
    /// `cgroup.procs` of its group, if init keeps the groups.
    procs: Option<OwnedFd>,
}

impl Prepared {
    fn open(number: u64, pipes: &CStr, groups: Option<&GuestGroups>) -> io::Result<Self> {
        let streams = open_streams(pipes)?;
        let procs = groups.map(|groups| groups.create(number)).transpose()?;
        Ok(Self { streams, procs })
    }
}

impl Init {
    /// Starts a command and sends the answer.
    pub(super) fn exec(&mut self, order: &ExecOrder, incoming: &mut Incoming) -> io::Result<()> {
        let passed = Passed::take(order, incoming)?;
        let answer = match self.launch(order, passed) {
            Ok(pid) => ExecAnswer::Started {
                pid: u32::try_from(pid).unwrap_or_default(),
            },
            Err(NotStarted { stage, cause }) => ExecAnswer::NotStarted {
                stage,
                errno: cause.raw_os_error().unwrap_or(libc::EIO),
            },
        };
        send_frame(self.sockets.orders.as_fd(), &answer.encode(), &[])
    }

    /// Opens the pipes of a later command. Errors are ignored: the command then opens them itself
    /// and reports why that failed.
    pub(super) fn prepare(&mut self, order: &PrepareOrder) {
        if let Ok(prepared) = Prepared::open(order.number, &order.pipes, self.groups.as_ref()) {
            self.prepared.insert(order.number, prepared);
        }
    }

    fn launch(&mut self, order: &ExecOrder, passed: Passed) -> Result<i32, NotStarted> {
        let preparing = |cause: io::Error| NotStarted {
            stage: Stage::Prepare,
            cause,
        };
        let Passed {
            streams,
            group,
            mut procs,
        } = passed;
        let [stdin, stdout, stderr] = match (&order.streams, streams) {
            (Streams::Passed, Some(streams)) => streams,
            (Streams::Passed, None) => return Err(preparing(Errno::BADF.into())),
            (Streams::Named { pipes, reads }, _) => {
                let prepared = match self.prepared.remove(&order.number) {
                    Some(prepared) => prepared,
                    None => Prepared::open(order.number, pipes, self.groups.as_ref())
                        .map_err(preparing)?,
                };
                procs.extend(prepared.procs);
                let [stdin, stdout, stderr] = prepared.streams;
                [
                    if *reads {
                        stdin
                    } else {
                        open_dev_null().map_err(preparing)?
                    },
                    stdout,
                    stderr,
                ]
            }
        };
        if let (CommandCgroup::Own, Some(groups)) = (order.group, &self.groups) {
            self.old_groups.retain(|&number| !groups.remove(number));
            self.old_groups.push(order.number);
        }
        let directory = match &self.settings.path_root {
            Some(root) => Some(open_in_root(root, &order.cwd).map_err(|cause| NotStarted {
                stage: Stage::Directory,
                cause,
            })?),
            None => None,
        };
        let mut signal_pipe = None;
        let (terminal, streams) = match order.terminal {
            Some(size) => {
                let source = self.signal_source();
                let opened = Terminal::open(size, stdin, stdout, source).map_err(preparing)?;
                signal_pipe = opened.signal_pipe;
                if let Some(user) = &order.user {
                    // The command may reopen its terminal by name. The group stays `tty`.
                    let owner = Some(rustix::fs::Uid::from_raw(user.uid));
                    rustix::fs::fchown(&opened.slave, owner, None)
                        .map_err(|errno| preparing(errno.into()))?;
                }
                // A kernel that does not handle the interrupt keys does not handle end of input
                // either, so a command without stdin gets `/dev/null`.
                let without_input = !order.reads() && source == SignalSource::Init;
                let first = if without_input {
                    Some(open_dev_null().map_err(preparing)?)
                } else {
                    None
                };
                (
                    Some(opened.terminal),
                    first.into_iter().chain([opened.slave]).collect(),
                )
            }
            None => (None, vec![stdin, stdout, stderr]),
        };
        let stream = |number: usize| {
            streams
                .get(number)
                .unwrap_or(&streams[streams.len() - 1])
                .as_fd()
        };
        let launch = Launch {
            order,
            streams: [stream(0), stream(1), stream(2)],
            has_terminal: terminal.is_some(),
            signal_pipe: signal_pipe.as_ref().map(AsFd::as_fd),
            cgroup: group.as_ref().map(AsFd::as_fd),
            procs: &procs,
            directory,
            become_root: self.settings.mode == InitMode::Guest,
        };
        let stack = &mut self.stack;
        let pid = match &self.settings.oom_score {
            Some(score) => score
                .for_command(|| start(stack, &launch))
                .map_err(preparing)?,
            None => start(stack, &launch),
        }?;
        self.numbers.insert(pid, order.number);
        self.commands.insert(
            order.number,
            Command {
                pid,
                terminal,
                ended: None,
            },
        );
        Ok(pid)
    }

    fn signal_source(&mut self) -> SignalSource {
        if self.settings.mode != InitMode::Guest {
            return SignalSource::Linux;
        }
        let kernel_sends = *self
            .kernel_sends_signals
            .get_or_insert_with(|| kernel_sends_signals().unwrap_or(true));
        if kernel_sends {
            SignalSource::GuestKernel
        } else {
            SignalSource::Init
        }
    }
}
