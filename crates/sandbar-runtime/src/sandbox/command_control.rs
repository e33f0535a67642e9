//! Signals, kill and resize for a command in a box.

use std::sync::Arc;

use sandbar_core::{Error, ErrorCode, Result, TerminalSize, signal};
use tokio_util::sync::CancellationToken;

use super::InitLink;
use crate::{cgroup::CommandGroup, command::Control, protocol::Request};

#[derive(Debug)]
pub(super) struct CommandControl {
    pub(super) link: Arc<InitLink>,
    pub(super) number: u64,
    pub(super) pid: u32,
    pub(super) has_terminal: bool,
    /// `None` if init keeps the command's cgroup, or there are no cgroups.
    pub(super) group: Option<Arc<CommandGroup>>,
    /// Cancelled by [`kill`](Control::kill), so that the supervisor does not wait for output.
    pub(super) killed: CancellationToken,
}

impl Control for CommandControl {
    fn signal(&self, signal: i32) -> Result<()> {
        signal::check(signal)?;
        if !self.link.is_running(self.number) {
            return Err(exited(self.pid));
        }
        self.link.request(&Request::Signal {
            number: self.number,
            signal,
        })
    }

    fn kill(&self) {
        let outcome = match &self.group {
            Some(group) => group
                .kill()
                .map_err(|error| Error::io("kill the processes of a command", error)),
            None => self.link.request(&Request::Kill {
                number: self.number,
            }),
        };
        // If the box is gone, so is the command.
        if let Err(error) = outcome
            && !self.link.is_gone()
        {
            tracing::warn!(
                error = error.chain(),
                "could not kill the processes of a command"
            );
        }
        self.killed.cancel();
    }

    fn resize(&self, size: TerminalSize) -> Result<()> {
        if !self.has_terminal {
            return Err(
                Error::new(ErrorCode::InvalidState, "command has no terminal")
                    .with_hint("set `terminal` when you start it"),
            );
        }
        if !self.link.is_running(self.number) {
            return Err(exited(self.pid));
        }
        self.link.request(&Request::Resize {
            number: self.number,
            size,
        })
    }
}

fn exited(pid: u32) -> Error {
    Error::new(
        ErrorCode::ProcessNotFound,
        format!("process {pid} has exited"),
    )
}
